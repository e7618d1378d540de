//! The console without a browser: loads pages and sends forms.

use serde_json::json;

use super::Instance;
use super::polls::Application;

/// A browser without scripts: it keeps cookies and sends forms.
pub struct Browser {
    http: reqwest::Client,
    /// The console's URL.
    pub base: String,
    /// The session cookie.
    pub cookie: Option<String>,
    /// The cookie with the message for the next page.
    flash: Option<String>,
}

/// A page.
#[derive(Debug)]
pub struct HtmlPage {
    /// The HTTP status.
    pub status: u16,
    headers: reqwest::header::HeaderMap,
    /// The markup.
    pub text: String,
}

impl HtmlPage {
    /// A header's value, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// The CSRF token in its forms.
    pub fn csrf(&self) -> String {
        let (_, rest) = self
            .text
            .split_once("name=\"csrf\" value=\"")
            .expect("a form");
        rest.split('"').next().unwrap().to_owned()
    }

    /// Checks the page's status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}

impl Browser {
    /// A browser without cookies.
    pub fn new(it: &Instance) -> Self {
        Self {
            http: it.http().clone(),
            base: it.router.clone(),
            cookie: None,
            flash: None,
        }
    }

    /// A browser with a session.
    pub async fn logged_in(it: &Instance, token: &str) -> Self {
        let mut browser = Self::new(it);
        let page = browser.post("/console/login", &[("token", token)]).await;
        assert_eq!(page.status, 303, "{}", page.text);
        browser
    }

    /// Sends a request with the cookies.
    pub async fn send(&mut self, request: reqwest::RequestBuilder) -> HtmlPage {
        let cookies: Vec<&str> = [&self.cookie, &self.flash]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        let request = match cookies.is_empty() {
            false => request.header("cookie", cookies.join("; ")),
            true => request,
        };
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        for set in headers.get_all("set-cookie") {
            let pair = set.to_str().unwrap().split(';').next().unwrap();
            if pair.starts_with("ballast_session=") {
                self.cookie = Some(pair.to_owned());
            }
            if pair.starts_with("ballast_flash=") {
                let gone = pair == "ballast_flash=";
                self.flash = (!gone).then(|| pair.to_owned());
            }
        }
        let text = answer.text().await.unwrap();
        HtmlPage {
            status,
            headers,
            text,
        }
    }

    /// Loads a page.
    pub async fn get(&mut self, path: &str) -> HtmlPage {
        let request = self.http.get(format!("{}{path}", self.base));
        self.send(request).await
    }

    /// Loads a part of a page, as the console's script does.
    pub async fn part(&mut self, path: &str) -> HtmlPage {
        let request = self.http.get(format!("{}{path}", self.base));
        self.send(request.header("x-part", "yes")).await
    }

    /// Follows a page's live updates.
    pub async fn watch(&self, path: &str) -> LiveStream {
        let request = self.http.get(format!("{}{path}", self.base));
        let request = match &self.cookie {
            Some(cookie) => request.header("cookie", cookie),
            None => request,
        };
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        LiveStream(answer)
    }

    /// Sends form fields.
    pub async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> HtmlPage {
        let encoded: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", percent(value)))
            .collect();
        let request = self
            .http
            .post(format!("{}{path}", self.base))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(encoded.join("&"));
        self.send(request).await
    }

    /// Sends a form of a page and follows the redirect.
    pub async fn submit_and_follow(
        &mut self,
        page: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> HtmlPage {
        let answer = self.submit(page, path, fields).await.expect(303);
        let to = answer.header("location").to_owned();
        self.get(&to).await.expect(200)
    }

    /// Sends a form of a page.
    pub async fn submit(&mut self, page: &str, path: &str, fields: &[(&str, &str)]) -> HtmlPage {
        let csrf = self.get(page).await.expect(200).csrf();
        let mut all = vec![("csrf", csrf.as_str())];
        all.extend_from_slice(fields);
        self.post(path, &all).await
    }
}

/// A page's live updates.
pub struct LiveStream(reqwest::Response);

impl LiveStream {
    /// Reads until an update contains these words.
    pub async fn until(&mut self, words: &str) {
        let mut so_far = String::new();
        while !so_far.contains(words) {
            let more = self.0.chunk().await.unwrap();
            let more =
                more.unwrap_or_else(|| panic!("the stream ended without {words:?}: {so_far}"));
            so_far.push_str(&String::from_utf8_lossy(&more));
        }
    }

    /// Reads to the end of the stream, which must come although there is always more to send;
    /// returns the last update.
    pub async fn wait_for_end(mut self) -> String {
        let mut last = String::new();
        let end = async {
            while let Ok(Some(more)) = self.0.chunk().await {
                last = String::from_utf8_lossy(&more).into_owned();
            }
        };
        let patience = std::time::Duration::from_secs(30);
        let ended = tokio::time::timeout(patience, end).await;
        ended.expect("the stream ends");
        last
    }
}

/// Creates a tenant and a poll whose names look like markup; returns the poll's page.
pub async fn badly_named(it: &Instance, evil: &str) -> String {
    let body = json!({ "tenantID": "acme", "name": evil, "organisation": evil });
    it.create("/tenants", &body).await;
    let app = Application::with_scopes(it, "acme", &["vote", "read", "polls"]).await;
    let poll = json!({ "title": evil, "items": [evil, "\"'><svg onload=alert(1)>"] });
    let poll = app.poll(poll).await;
    app.vote(&poll, 0, "ada").await;
    format!("/console/polls/acme/{}", poll.id)
}

/// Percent-encodes a text for a form or a query string.
pub fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The secret or link that a page shows once.
#[track_caller]
pub fn secret(page: &HtmlPage) -> String {
    let (_, rest) = page.text.split_once("id=\"secret\">").expect("a secret");
    rest.split('<').next().unwrap().to_owned()
}
