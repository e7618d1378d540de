//! A real browser: headless Chromium, driven through WebDriver. Implements only the commands
//! that the journeys use.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use serde_json::{Value, json};

use super::{eventually, stopwatch};

/// A browser with one window.
pub struct Chromium {
    driver: Child,
    http: reqwest::Client,
    session: String,
    _profile: tempfile::TempDir,
}

/// An element of the page.
#[derive(Debug, Clone)]
pub struct Element(String);

/// The name of an element's reference on the wire.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

impl Chromium {
    /// Starts a browser with an empty profile.
    pub async fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut driver = Command::new(tool(&["chromedriver"]))
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let port = port(&mut driver);
        let http = super::client(None);
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": {
                "binary": tool(&["chromium", "google-chrome"]),
                "args": [
                    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                    "--hide-scrollbars", "--force-prefers-reduced-motion",
                    format!("--user-data-dir={}", profile.path().display()),
                ],
            },
        } } });
        let base = format!("http://127.0.0.1:{port}/session");
        let mut browser = Self {
            driver,
            http,
            session: base,
            _profile: profile,
        };
        let made = browser.send("POST", "", &wanted).await.expect("a session");
        let id = made["sessionId"].as_str().unwrap();
        browser.session = format!("{}/{id}", browser.session);
        browser
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let url = format!("{}{path}", self.session);
        let mut request = self.http.request(method.parse().unwrap(), url);
        if method == "POST" {
            request = request.json(body);
        }
        let answer = request.send().await.expect("the driver answers");
        let good = answer.status().is_success();
        let mut body: Value = answer.json().await.unwrap();
        let value = body["value"].take();
        if good { Ok(value) } else { Err(value) }
    }

    async fn send_or_panic(&self, method: &str, path: &str, body: Value) -> Value {
        match self.send(method, path, &body).await {
            Ok(value) => value,
            Err(error) => panic!("{method} {path} {body}: {error}\n{}", self.source().await),
        }
    }

    /// Opens an address.
    pub async fn navigate(&self, url: &str) {
        self.send_or_panic("POST", "/url", json!({ "url": url }))
            .await;
    }

    /// The address of the current page.
    pub async fn url(&self) -> String {
        super::text(&self.send_or_panic("GET", "/url", Value::Null).await)
    }

    /// The current page's markup.
    pub async fn source(&self) -> String {
        let source = self.send("GET", "/source", &Value::Null).await;
        source.map_or_else(|error| error.to_string(), |source| super::text(&source))
    }

    /// Waits for an element.
    pub async fn find(&self, css: &str) -> Element {
        let body = json!({ "using": "css selector", "value": css });
        eventually(css, async || {
            let found = self.send("POST", "/element", &body).await.ok()?;
            Some(Element(super::text(&found[ELEMENT])))
        })
        .await
    }

    /// Waits for a link, button or summary with this text.
    pub async fn find_by_text(&self, text_shown: &str) -> Element {
        let path = format!(
            "//*[(self::a or self::button or self::summary)][normalize-space(.)={text_shown:?}]"
        );
        let body = json!({ "using": "xpath", "value": path });
        eventually(text_shown, async || {
            let found = self.send("POST", "/element", &body).await.ok()?;
            Some(Element(super::text(&found[ELEMENT])))
        })
        .await
    }

    /// Clicks an element as soon as it is clickable.
    pub async fn click(&self, element: &Element) {
        let path = format!("/element/{}/click", element.0);
        eventually("a click", async || {
            self.send("POST", &path, &json!({})).await.ok()
        })
        .await;
    }

    /// Clicks the link, button or summary with this text.
    pub async fn click_text(&self, text_shown: &str) {
        let body = json!({
            "using": "xpath",
            "value": format!("//*[(self::a or self::button or self::summary)][normalize-space(.)={text_shown:?}]"),
        });
        // The page may be redrawn between finding the element and clicking it.
        eventually(text_shown, async || {
            let found = self.send("POST", "/element", &body).await.ok()?;
            let path = format!("/element/{}/click", found[ELEMENT].as_str()?);
            self.send("POST", &path, &json!({})).await.ok()
        })
        .await;
    }

    /// Types into a field.
    pub async fn fill(&self, css: &str, text: &str) {
        let Element(id) = self.find(css).await;
        self.send_or_panic("POST", &format!("/element/{id}/clear"), json!({}))
            .await;
        self.send_or_panic(
            "POST",
            &format!("/element/{id}/value"),
            json!({ "text": text }),
        )
        .await;
    }

    /// Runs a script and returns what it returns.
    pub async fn script(&self, script: &str, arguments: Value) -> Value {
        let body = json!({ "script": script, "args": arguments });
        self.send_or_panic("POST", "/execute/sync", body).await
    }

    /// Runs a script that calls its last argument when it is done.
    pub async fn script_async(&self, script: &str, arguments: Value) -> Value {
        let body = json!({ "script": script, "args": arguments });
        self.send_or_panic("POST", "/execute/async", body).await
    }

    /// The page's visible text.
    pub async fn text(&self) -> String {
        super::text(
            &self
                .script("return document.body.innerText", json!([]))
                .await,
        )
    }

    /// Waits until this text is visible on the page.
    pub async fn wait_for_text(&self, text_shown: &str) {
        let watch = stopwatch();
        loop {
            let text = self.text().await;
            if text.contains(text_shown) {
                return;
            }
            assert!(
                watch.elapsed().as_secs() < 60,
                "{text_shown:?} is not on the page:\n{text}"
            );
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// Sets the size of the window.
    pub async fn resize(&self, width: u32, height: u32) {
        // Chromium's windows have a minimum width; emulated device metrics do not.
        let body = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        } });
        self.send_or_panic("POST", "/goog/cdp/execute", body).await;
    }

    /// Deletes the current site's cookies.
    pub async fn clear_cookies(&self) {
        self.send_or_panic("DELETE", "/cookie", Value::Null).await;
    }

    /// Saves a screenshot of the whole page.
    pub async fn screenshot(&self, file: &Path) {
        let body = json!({ "cmd": "Page.captureScreenshot", "params": {
            "format": "png", "captureBeyondViewport": true,
        } });
        let taken = self.send_or_panic("POST", "/goog/cdp/execute", body).await;
        let data = super::text(&taken["data"]);
        let png = base64::engine::general_purpose::STANDARD
            .decode(data)
            .unwrap();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, png).unwrap();
    }

    /// Errors and warnings logged to the browser's console since the last call.
    pub async fn console_errors(&self) -> Vec<String> {
        let log = self
            .send_or_panic("POST", "/se/log", json!({ "type": "browser" }))
            .await;
        let entries = log.as_array().unwrap().iter();
        let bad = entries.filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING");
        bad.map(|entry| entry["message"].to_string()).collect()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // On SIGTERM the driver ends its browser too.
        let _ = Command::new("kill")
            .arg(self.driver.id().to_string())
            .status();
        let _ = self.driver.wait();
    }
}

/// Reads the port that the driver listens on from its output.
fn port(driver: &mut Child) -> u16 {
    use std::io::{BufRead, BufReader};
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        if let Some((_, rest)) = line.split_once("started successfully on port ") {
            return rest.trim_end_matches('.').parse().unwrap();
        }
    }
    panic!("chromedriver printed no port");
}

/// Finds a tool in `PATH`.
fn tool(names: &[&str]) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    for directory in std::env::split_paths(&path) {
        for name in names {
            let file = directory.join(name);
            if file.is_file() {
                return file;
            }
        }
    }
    panic!(
        "{names:?} not found: run scripts/test browser, or install chromium and chromium-driver"
    );
}
