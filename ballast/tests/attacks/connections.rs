//! Clients that connect and then say nothing, or too little.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::clock::stopwatch;
use crate::support::polls::Application;
use crate::support::{Instance, InstanceOptions, eventually, within};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

/// More connections than the process may have descriptors.
const CONNECTIONS: usize = 1_100;
const DESCRIPTORS: u32 = 1_024;
/// How soon a new client must get in.
const PATIENCE: Duration = Duration::from_secs(15);
/// How soon a connection without a request must end.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn address(it: &Instance) -> String {
    it.router.trim_start_matches("http://").to_owned()
}

/// An instance with few descriptors, and as many as possible for this process.
async fn start_with_few_descriptors() -> Instance {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let it = Instance::with(InstanceOptions {
        descriptors_max: Some(DESCRIPTORS),
        ..InstanceOptions::default()
    });
    it.await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_keep_no_client_out() {
    let it = start_with_few_descriptors().await;
    let acme = Application::create(&it, "acme").await;
    let poll = acme.poll(json!({})).await;
    let address = address(&it);
    let openings: [&[u8]; 4] = [
        b"",
        &PREFACE[..9],
        PREFACE,
        b"POST /votes HTTP/1.1\r\nHost: a\r\n",
    ];
    let mut silent = Vec::new();
    for number in 0..CONNECTIONS {
        let Ok(mut stream) = TcpStream::connect(&address) else {
            continue;
        };
        // Those that were shed are closed already.
        let _ = stream.write_all(openings[number % openings.len()]);
        silent.push(stream);
    }
    assert!(silent.len() > DESCRIPTORS as usize, "{}", silent.len());
    let voting = within(PATIENCE, "a new client's vote", async || {
        // A client of its own: it needs a new connection.
        let fresh = Application {
            http: crate::support::client(None),
            ..acme.clone()
        };
        let call = fresh.call("PATCH", &poll.vote(0)).header("voter-id", "ada");
        let answer = call.try_send().await?;
        (answer.status == 200).then_some(())
    });
    voting.await;
    assert_eq!(acme.newest(&poll).await["total"], 1);
    drop(silent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_a_request_ends() {
    let it = Instance::start().await;
    for opening in [&b""[..], b"P", &PREFACE[..23]] {
        let mut stream = TcpStream::connect(address(&it)).unwrap();
        stream.set_read_timeout(Some(SILENCE_MAX)).unwrap();
        let began = stopwatch();
        stream.write_all(opening).unwrap();
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer);
        assert!(began.elapsed() < SILENCE_MAX, "{opening:?}");
        // Closed or reset, and not the timeout of this client.
        let kind = ended.err().map(|error| error.kind());
        assert_ne!(kind, Some(std::io::ErrorKind::WouldBlock), "{opening:?}");
    }
}

/// HTTP/2 and then silence: the other side does not answer pings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http2_connection_that_does_not_answer_ends() {
    let it = Instance::start().await;
    let mut stream = TcpStream::connect(address(&it)).unwrap();
    stream.write_all(PREFACE).unwrap();
    // An empty SETTINGS frame.
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4_096];
    eventually("the end of the connection", async || {
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Some(()),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return None,
                Err(_) => return Some(()),
            }
        }
    })
    .await;
}
