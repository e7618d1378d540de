//! A tenant's application in journeys: it has a key, creates polls, votes, and reads and watches
//! results.

use reqwest::Response;
use serde_json::{Value, json};

use super::{Call, HttpAnswer, Instance, in_ms, text};

/// An application with a key.
#[derive(Clone)]
pub struct Application {
    /// The HTTP client.
    pub http: reqwest::Client,
    /// The router's URL.
    pub router: String,
    /// Its key.
    pub key: String,
}

/// A created poll.
#[derive(Debug, Clone)]
pub struct TestPoll {
    /// Its id.
    pub id: String,
    /// Its items' ids.
    pub items: Vec<String>,
}

impl Application {
    /// Creates a tenant and its application.
    pub async fn create(it: &Instance, tenant: &str) -> Self {
        it.tenant(tenant).await;
        Self::with_scopes(it, tenant, &["vote", "read", "polls"]).await
    }

    /// Creates an application of an existing tenant, with a key that has these scopes.
    pub async fn with_scopes(it: &Instance, tenant: &str, scopes: &[&str]) -> Self {
        let path = format!("/tenants/{tenant}/keys");
        let made = it.create(&path, &json!({ "scopes": scopes })).await;
        Self {
            http: it.http().clone(),
            router: it.router.clone(),
            key: text(&made["key"]),
        }
    }

    /// A request with its key.
    pub fn call(&self, method: &str, path: &str) -> Call {
        let url = format!("{}{path}", self.router);
        Call::new(&self.http, method, &url).header("x-api-key", &self.key)
    }

    /// Creates a poll of two items that is open for an hour, with these fields.
    pub async fn poll(&self, fields: Value) -> TestPoll {
        let mut body = json!({ "items": ["Tabs", "Spaces"], "expirationTime": in_ms(3_600_000) });
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let made = self.call("POST", "/polls").json(&body).send().await;
        TestPoll::from_json(&made.expect(201))
    }

    /// Reads something that exists.
    pub async fn get(&self, path: &str) -> Value {
        self.call("GET", path).send().await.expect(200)
    }

    /// Votes for the item at an index.
    pub async fn vote(&self, poll: &TestPoll, item: usize, voter: &str) -> HttpAnswer {
        let path = poll.vote(item);
        self.call("PATCH", &path)
            .header("voter-id", voter)
            .send()
            .await
    }

    /// The current results, not cached ones.
    pub async fn newest(&self, poll: &TestPoll) -> Value {
        let call = self.call("GET", &poll.path("/votes"));
        call.header("cache-control", "no-cache")
            .send()
            .await
            .expect(200)
    }

    /// Sends votes as a stream of lines; returns one outcome for each.
    pub async fn send_lines(&self, lines: String) -> Vec<Value> {
        let call = self.call("POST", "/votes");
        let answer = call.raw("application/x-ndjson", lines).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let lines = answer.text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Watches a poll's results, starting after the event `seen`.
    pub async fn watch(&self, poll: &TestPoll, seen: Option<&str>) -> Watcher {
        self.try_watch(poll, seen).await.unwrap()
    }

    /// Watches a poll's results, if the process can be reached.
    pub async fn try_watch(
        &self,
        poll: &TestPoll,
        seen: Option<&str>,
    ) -> Result<Watcher, reqwest::Error> {
        let url = format!("{}{}", self.router, poll.path("/votes/live"));
        let mut request = self.http.get(url).header("x-api-key", &self.key);
        if let Some(seen) = seen {
            request = request.header("last-event-id", seen);
        }
        let response = request.send().await?;
        Ok(Watcher {
            status: response.status().as_u16(),
            response,
            buffer: String::new(),
        })
    }
}

impl TestPoll {
    /// Reads a poll from the answer to its creation.
    pub fn from_json(made: &Value) -> Self {
        let items = made["items"].as_array().unwrap();
        Self {
            id: text(&made["pollID"]),
            items: items.iter().map(|item| text(&item["itemID"])).collect(),
        }
    }

    /// A path below the poll's path.
    pub fn path(&self, rest: &str) -> String {
        format!("/polls/{}{rest}", self.id)
    }

    /// The path of a vote for the item at an index.
    pub fn vote(&self, item: usize) -> String {
        self.path(&format!("/votes/{}", self.items[item]))
    }

    /// A vote as a line of a stream.
    pub fn line(&self, item: usize, voter: &str) -> String {
        let vote = json!({ "pollID": self.id, "itemID": self.items[item], "voterID": voter });
        format!("{vote}\n")
    }
}

/// A viewer of live results.
pub struct Watcher {
    /// The HTTP status.
    pub status: u16,
    response: Response,
    buffer: String,
}

/// An event of a live results stream.
#[derive(Debug, Clone)]
pub struct StreamEvent {
    /// Its name; empty for a comment.
    pub name: String,
    /// Its id.
    pub id: String,
    /// Its data.
    pub data: Value,
}

impl Watcher {
    /// The next event or comment; `None` at the end.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        self.try_next().await.unwrap()
    }

    /// The next event that is not a comment, if the process can be reached.
    pub async fn try_event(&mut self) -> Result<Option<StreamEvent>, reqwest::Error> {
        loop {
            match self.try_next().await? {
                Some(event) if event.name.is_empty() => {}
                event => return Ok(event),
            }
        }
    }

    async fn try_next(&mut self) -> Result<Option<StreamEvent>, reqwest::Error> {
        loop {
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let event = read_event(event);
                self.buffer = rest.to_owned();
                return Ok(Some(event));
            }
            let Some(chunk) = self.response.chunk().await? else {
                return Ok(None);
            };
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event that is not a comment.
    pub async fn event(&mut self) -> Option<StreamEvent> {
        loop {
            let event = self.next().await?;
            if !event.name.is_empty() {
                return Some(event);
            }
        }
    }

    /// Waits for results with this total; none on the way may exceed it.
    pub async fn total(&mut self, total: u64) -> StreamEvent {
        loop {
            let event = self.event().await.unwrap();
            let found = event.data["total"].as_u64().unwrap();
            assert!(found <= total, "{event:?}");
            if found == total {
                return event;
            }
        }
    }
}

fn read_event(text: &str) -> StreamEvent {
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(found, _)| *found == name);
        found.map_or(String::new(), |(_, value)| value.to_owned())
    };
    StreamEvent {
        name: field("event"),
        id: field("id"),
        data: serde_json::from_str(&field("data")).unwrap_or(Value::Null),
    }
}
