//! The console without a browser: pages asked for, forms sent.

use serde_json::json;

use super::Instance;
use super::polls::Application;

/// A browser without scripts: it keeps cookies and sends forms.
pub struct Browser {
    http: reqwest::Client,
    /// Where it goes.
    pub base: String,
    /// The cookie that it keeps.
    pub cookie: Option<String>,
    /// The word for the next page.
    flash: Option<String>,
}

/// A page as it came.
#[derive(Debug)]
pub struct Page {
    /// The HTTP status.
    pub status: u16,
    headers: reqwest::header::HeaderMap,
    /// The markup.
    pub text: String,
}

impl Page {
    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// What its forms carry.
    pub fn csrf(&self) -> String {
        let (_, rest) = self
            .text
            .split_once("name=\"csrf\" value=\"")
            .expect("a form");
        rest.split('"').next().unwrap().to_owned()
    }

    /// The page, which has this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}

impl Browser {
    /// A browser that knows nothing.
    pub fn of(it: &Instance) -> Self {
        Self {
            http: it.http().clone(),
            base: it.router.clone(),
            cookie: None,
            flash: None,
        }
    }

    /// A browser with a session.
    pub async fn logged_in(it: &Instance, token: &str) -> Self {
        let mut browser = Self::of(it);
        let page = browser.post("/console/login", &[("token", token)]).await;
        assert_eq!(page.status, 303, "{}", page.text);
        browser
    }

    /// Sends a request with the cookie.
    pub async fn send(&mut self, request: reqwest::RequestBuilder) -> Page {
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
        Page {
            status,
            headers,
            text,
        }
    }

    /// Asks for a page.
    pub async fn get(&mut self, path: &str) -> Page {
        let request = self.http.get(format!("{}{path}", self.base));
        self.send(request).await
    }

    /// Asks for a part of a page, as a script does.
    pub async fn part(&mut self, path: &str) -> Page {
        let request = self.http.get(format!("{}{path}", self.base));
        self.send(request.header("x-part", "yes")).await
    }

    /// Follows what changes on a page.
    pub async fn watch(&self, path: &str) -> Told {
        let request = self.http.get(format!("{}{path}", self.base));
        let request = match &self.cookie {
            Some(cookie) => request.header("cookie", cookie),
            None => request,
        };
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        Told(answer)
    }

    /// Sends fields.
    pub async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
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

    /// Sends a form that a page has, and goes where it leads.
    pub async fn done(&mut self, page: &str, path: &str, fields: &[(&str, &str)]) -> Page {
        let answer = self.act(page, path, fields).await.expect(303);
        let to = answer.header("location").to_owned();
        self.get(&to).await.expect(200)
    }

    /// Sends a form that a page has.
    pub async fn act(&mut self, page: &str, path: &str, fields: &[(&str, &str)]) -> Page {
        let csrf = self.get(page).await.expect(200).csrf();
        let mut all = vec![("csrf", csrf.as_str())];
        all.extend_from_slice(fields);
        self.post(path, &all).await
    }
}

/// What a page is told as it changes.
pub struct Told(reqwest::Response);

impl Told {
    /// Reads until something is told that holds these words.
    pub async fn until(&mut self, words: &str) {
        let mut so_far = String::new();
        while !so_far.contains(words) {
            let more = self.0.chunk().await.unwrap();
            let more = more.unwrap_or_else(|| panic!("{words:?} was never told: {so_far}"));
            so_far.push_str(&String::from_utf8_lossy(&more));
        }
    }

    /// Reads to the end, which must come although there is always more to
    /// tell; and what was told last.
    pub async fn ended(mut self) -> String {
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

/// A tenant and a poll with names that would be markup; and the poll's page.
pub async fn badly_named(it: &Instance, evil: &str) -> String {
    let body = json!({ "tenantID": "acme", "name": evil, "organisation": evil });
    it.create("/tenants", &body).await;
    let app = Application::with_scopes(it, "acme", &["vote", "read", "polls"]).await;
    let poll = json!({ "title": evil, "items": [evil, "\"'><svg onload=alert(1)>"] });
    let poll = app.poll(poll).await;
    app.vote(&poll, 0, "ada").await;
    format!("/console/polls/acme/{}", poll.id)
}

/// A text as it is in a form or a query string.
pub fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The secret or link that a page shows once.
#[track_caller]
pub fn secret(page: &Page) -> String {
    let (_, rest) = page.text.split_once("id=\"secret\">").expect("a secret");
    rest.split('<').next().unwrap().to_owned()
}
