//! A stream's bytes become lines, and lines become ballots. Pure.
//!
//! Nothing is copied but a line that two chunks share, and nothing allocated
//! per line but the voter's name.

use std::borrow::Cow;

use ballast_domain::bounds::VOTE_LINE_BYTES_MAX;
use ballast_domain::object::object;
use ballast_domain::poll::{Ballot, Choice, RequestId};
use ballast_domain::{ErrorCode, Timestamp, VoterId};
use serde::Deserialize;

use crate::request::named_vote;

/// Bytes as they arrive, and how many lines they have made.
#[derive(Debug)]
pub(super) struct Lines {
    /// The beginning of a line whose end has not arrived.
    begun: Vec<u8>,
    /// Whether that line is too long already; then it is not kept.
    too_long: bool,
    number: u64,
    seed: u64,
}

/// Lines that are cast together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// What is to be cast.
    pub(super) ballots: Vec<Ballot>,
    /// The lines in their order; as many of them are ballots as there are.
    pub(super) lines: Vec<(u64, Line)>,
}

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The next ballot.
    Ballot,
    /// None: it is refused at once.
    Refused(ErrorCode, String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    #[serde(rename = "pollID", borrow)]
    poll: Cow<'a, str>,
    #[serde(rename = "itemID", borrow)]
    item: Cow<'a, str>,
    #[serde(rename = "voterID", borrow)]
    voter: Cow<'a, str>,
    #[serde(rename = "requestID", borrow, default)]
    request: Option<Cow<'a, str>>,
}

impl Lines {
    /// A stream that begins. The seed makes the names of requests that have
    /// none, so it must be drawn by chance.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            begun: Vec::new(),
            too_long: false,
            number: 0,
            seed,
        }
    }

    /// Takes bytes from the front of `chunk` until the batch has `most` lines
    /// or nothing is left; says how many were taken.
    pub(super) fn take(
        &mut self,
        chunk: &[u8],
        most: usize,
        now: Timestamp,
        batch: &mut Batch,
    ) -> usize {
        let mut taken = 0;
        while batch.lines.len() < most {
            let rest = &chunk[taken..];
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.keep(rest);
                return chunk.len();
            };
            taken += end + 1;
            if self.begun.is_empty() && !self.too_long {
                self.line(&rest[..end], now, batch);
            } else {
                self.keep(&rest[..end]);
                self.end(now, batch);
            }
        }
        taken
    }

    /// The stream has ended: what has begun is its last line.
    pub(super) fn end(&mut self, now: Timestamp, batch: &mut Batch) {
        if self.too_long {
            self.number += 1;
            self.too_long = false;
            batch.lines.push((self.number, too_long()));
        } else {
            let line = std::mem::take(&mut self.begun);
            self.line(&line, now, batch);
        }
    }

    fn keep(&mut self, part: &[u8]) {
        if self.too_long || self.begun.len() + part.len() > VOTE_LINE_BYTES_MAX {
            self.too_long = true;
            self.begun.clear();
        } else {
            self.begun.extend_from_slice(part);
        }
    }

    fn line(&mut self, line: &[u8], now: Timestamp, batch: &mut Batch) {
        self.number += 1;
        if line.len() > VOTE_LINE_BYTES_MAX {
            batch.lines.push((self.number, too_long()));
            return;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let line = match self.ballot(line, now) {
            Ok(ballot) => {
                batch.ballots.push(ballot);
                Line::Ballot
            }
            Err((code, detail)) => Line::Refused(code, detail),
        };
        batch.lines.push((self.number, line));
    }

    fn ballot(&self, line: &[u8], now: Timestamp) -> Result<Ballot, (ErrorCode, String)> {
        let mut json = serde_json::Deserializer::from_slice(line);
        let written: Written<'_> = object(&mut json)
            .and_then(|written| json.end().map(|()| written))
            .map_err(|bad| (ErrorCode::MalformedRequest, unread(&bad)))?;
        let (poll, item) = (written.poll.parse(), written.item.parse());
        let poll = poll.map_err(|_| not_there(ErrorCode::PollNotFound, "poll"))?;
        let item = item.map_err(|_| not_there(ErrorCode::ItemNotFound, "item"))?;
        Ok(Ballot {
            poll,
            item,
            voter: VoterId::new(&written.voter)
                .map_err(|bad| (ErrorCode::InvalidField, bad.to_string()))?,
            choice: Choice::For,
            request: match written.request {
                Some(name) => named_vote(&name, item, Choice::For),
                None => RequestId(mixed(self.seed.wrapping_add(self.number))),
            },
            arrived_at: now,
            if_revision: None,
        })
    }
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// SplitMix64's last step: neighbours become strangers.
fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn too_long() -> Line {
    let detail = format!("the line has more than {VOTE_LINE_BYTES_MAX} bytes");
    Line::Refused(ErrorCode::MalformedRequest, detail)
}

fn unread(bad: &serde_json::Error) -> String {
    let text = bad.to_string();
    // The line's number is told anyhow, and the line of the line is 1.
    let text = text.split(" at line ").next().unwrap_or_default();
    format!("the line is no vote: {text}")
}

fn not_there(code: ErrorCode, noun: &str) -> (ErrorCode, String) {
    (code, format!("there is no such {noun}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POLL: &str = "poll-01kb5q6s3ww3q0v9d1nqz8t5ma";
    const ITEM: &str = "item-7q0v9d1nqz8t5";

    fn now() -> Timestamp {
        Timestamp::from_unix_ms(0)
    }

    fn vote(voter: &str) -> String {
        format!(r#"{{"pollID":"{POLL}","itemID":"{ITEM}","voterID":"{voter}"}}"#)
    }

    /// Every line's number and code; 0 for a ballot.
    fn read(chunks: &[&[u8]]) -> (Vec<(u64, Option<ErrorCode>)>, Vec<Ballot>) {
        let (mut lines, mut batch) = (Lines::new(1), Batch::default());
        for chunk in chunks {
            let mut rest = *chunk;
            while !rest.is_empty() {
                let most = batch.lines.len() + 2;
                let taken = lines.take(rest, most, now(), &mut batch);
                rest = &rest[taken..];
            }
        }
        lines.end(now(), &mut batch);
        let shown = batch.lines.into_iter().map(|(number, line)| match line {
            Line::Ballot => (number, None),
            Line::Refused(code, _) => (number, Some(code)),
        });
        (shown.collect(), batch.ballots)
    }

    #[test]
    fn what_is_no_vote_is_refused_and_the_rest_goes_on() {
        let bad = Some(ErrorCode::MalformedRequest);
        let long = format!("{}{}", vote("a"), " ".repeat(VOTE_LINE_BYTES_MAX));
        let text = [
            vote("a"),
            String::new(),
            "{".to_owned(),
            "[]".to_owned(),
            vote("b") + "\r",
            vote("c") + " x",
            long,
            vote(""),
            vote("d").replace(POLL, "poll-1"),
            vote("e").replace(ITEM, "item-1"),
            vote("f").replace("pollID", "pollId"),
            vote("g\\u00e9"),
        ];
        let (lines, ballots) = read(&[text.join("\n").as_bytes()]);
        let expected = [
            (1, None),
            (3, bad),
            (4, bad),
            (5, None),
            (6, bad),
            (7, bad),
            (8, Some(ErrorCode::InvalidField)),
            (9, Some(ErrorCode::PollNotFound)),
            (10, Some(ErrorCode::ItemNotFound)),
            (11, bad),
            (12, None),
        ];
        assert_eq!(lines, expected);
        let voters: Vec<_> = ballots.iter().map(|ballot| ballot.voter.as_str()).collect();
        assert_eq!(voters, ["a", "b", "gé"]);
    }

    #[test]
    fn requests_without_a_name_get_names_of_their_own() {
        let named = vote("c").replace('}', r#","requestID":"me"}"#);
        let text = [vote("a"), vote("b"), named].join("\n");
        let (_, ballots) = read(&[text.as_bytes()]);
        assert_ne!(ballots[0].request, ballots[1].request);
        let expected = named_vote("me", ITEM.parse().unwrap(), Choice::For);
        assert_eq!(ballots[2].request, expected);
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let (mut lines, mut batch) = (Lines::new(1), Batch::default());
        for _ in 0..100 {
            lines.take(&[b'x'; 10_000], 10, now(), &mut batch);
            assert!(lines.begun.capacity() <= 2 * VOTE_LINE_BYTES_MAX);
        }
        lines.take(b"\n", 10, now(), &mut batch);
        assert_eq!(batch.lines, [(1, too_long())]);
    }

    /// Something that may be in a stream, with and without line breaks.
    fn fragment() -> impl Strategy<Value = Vec<u8>> {
        let whole = "[a-z\"\\\\ \u{eb}]{0,9}".prop_map(|voter| (vote(&voter) + "\n").into_bytes());
        let broken = (0..130_usize, any::<u8>()).prop_map(|(place, byte)| {
            let mut line = (vote("a") + "\n").into_bytes();
            let place = place.min(line.len() - 1);
            line[place] = byte;
            line
        });
        let long = (VOTE_LINE_BYTES_MAX - 130..VOTE_LINE_BYTES_MAX + 3).prop_map(|length| {
            vote("a")
                .into_bytes()
                .into_iter()
                .chain(vec![b' '; length])
                .collect()
        });
        let anything = proptest::collection::vec(any::<u8>(), 0..40);
        let breaks = "[\n\r\t ]{1,4}".prop_map(String::into_bytes);
        prop_oneof![4 => whole, 4 => broken, 1 => long, 2 => anything, 3 => breaks]
    }

    proptest! {
        #[test]
        fn anything_in_any_chunks_is_read_alike(
            fragments in proptest::collection::vec(fragment(), 0..12),
            mut cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
        ) {
            let text = fragments.concat();
            let mut places: Vec<_> = cuts.drain(..).map(|cut| cut.index(text.len() + 1)).collect();
            places.extend([0, text.len()]);
            places.sort_unstable();
            let chunks: Vec<_> = places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let (lines, ballots) = read(&chunks);
            prop_assert_eq!(&(lines.clone(), ballots.clone()), &read(&[&text]));
            // One outcome for each line that says something, in order.
            let says = |line: &[u8]| {
                line.len() > VOTE_LINE_BYTES_MAX || !line.iter().all(u8::is_ascii_whitespace)
            };
            let expected: Vec<u64> = (1..)
                .zip(text.split(|byte| *byte == b'\n'))
                .filter_map(|(number, line)| says(line).then_some(number))
                .collect();
            let numbers: Vec<u64> = lines.iter().map(|(number, _)| *number).collect();
            prop_assert_eq!(numbers, expected);
            let counted = lines.iter().filter(|(_, refused)| refused.is_none()).count();
            prop_assert_eq!(counted, ballots.len());
        }

        #[test]
        fn chunks_may_end_anywhere(cuts in proptest::collection::vec(0..900_usize, 0..12)) {
            let text = [vote("a"), "bad".to_owned(), String::new(), vote("b"), vote("c")].join("\n");
            let text = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let chunks: Vec<_> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&chunks), read(&[text]));
        }
    }
}
