//! Parses a stream's bytes into lines, and lines into ballots. Pure.
//!
//! Only a line that spans two chunks is copied, and only the voter's name is allocated
//! per line.

use std::borrow::Cow;

use ballast_domain::bounds::VOTE_LINE_BYTES_MAX;
use ballast_domain::object::object;
use ballast_domain::poll::{Ballot, RequestId, VoteChoice};
use ballast_domain::{ErrorCode, Timestamp, VoterId};
use serde::Deserialize;

use crate::request::vote_request_id;

/// Splits the bytes of a stream into lines.
#[derive(Debug)]
pub(super) struct LineParser {
    /// The beginning of a line whose end has not arrived.
    partial: Vec<u8>,
    /// Whether that line is too long; it is then not buffered.
    too_long: bool,
    number: u64,
    seed: u64,
}

/// Lines that are cast together.
#[derive(Debug, Default)]
pub(super) struct LineBatch {
    /// The ballots to cast.
    pub(super) ballots: Vec<Ballot>,
    /// The lines in order. [`ParsedLine::Ballot`] refers to the next ballot.
    pub(super) lines: Vec<(u64, ParsedLine)>,
}

/// The result of parsing a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedLine {
    /// The next ballot.
    Ballot,
    /// Not a vote: it is refused at once.
    Refused(ErrorCode, String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VoteLineJson<'a> {
    #[serde(rename = "pollID", borrow)]
    poll: Cow<'a, str>,
    #[serde(rename = "itemID", borrow)]
    item: Cow<'a, str>,
    #[serde(rename = "voterID", borrow)]
    voter: Cow<'a, str>,
    #[serde(rename = "requestID", borrow, default)]
    request: Option<Cow<'a, str>>,
}

impl LineParser {
    /// Starts a stream. The seed must be random: request ids of lines without a
    /// `requestID` are made from it.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            partial: Vec::new(),
            too_long: false,
            number: 0,
            seed,
        }
    }

    /// Parses bytes from the front of `chunk` until the batch has `most` lines or the
    /// chunk is used up. Returns how many bytes were parsed.
    pub(super) fn read_chunk(
        &mut self,
        chunk: &[u8],
        most: usize,
        now: Timestamp,
        batch: &mut LineBatch,
    ) -> usize {
        let mut parsed = 0;
        while batch.lines.len() < most {
            let rest = &chunk[parsed..];
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.buffer(rest);
                return chunk.len();
            };
            parsed += end + 1;
            if self.partial.is_empty() && !self.too_long {
                self.parse_line(&rest[..end], now, batch);
            } else {
                self.buffer(&rest[..end]);
                self.finish(now, batch);
            }
        }
        parsed
    }

    /// The stream has ended: the partial line is its last line.
    pub(super) fn finish(&mut self, now: Timestamp, batch: &mut LineBatch) {
        if self.too_long {
            self.number += 1;
            self.too_long = false;
            batch.lines.push((self.number, line_too_long()));
        } else {
            let line = std::mem::take(&mut self.partial);
            self.parse_line(&line, now, batch);
        }
    }

    fn buffer(&mut self, part: &[u8]) {
        if self.too_long || self.partial.len() + part.len() > VOTE_LINE_BYTES_MAX {
            self.too_long = true;
            self.partial.clear();
        } else {
            self.partial.extend_from_slice(part);
        }
    }

    fn parse_line(&mut self, line: &[u8], now: Timestamp, batch: &mut LineBatch) {
        self.number += 1;
        if line.len() > VOTE_LINE_BYTES_MAX {
            batch.lines.push((self.number, line_too_long()));
            return;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let line = match self.parse_ballot(line, now) {
            Ok(ballot) => {
                batch.ballots.push(ballot);
                ParsedLine::Ballot
            }
            Err((code, detail)) => ParsedLine::Refused(code, detail),
        };
        batch.lines.push((self.number, line));
    }

    fn parse_ballot(&self, line: &[u8], now: Timestamp) -> Result<Ballot, (ErrorCode, String)> {
        let mut json = serde_json::Deserializer::from_slice(line);
        let written: VoteLineJson<'_> = object(&mut json)
            .and_then(|written| json.end().map(|()| written))
            .map_err(|bad| (ErrorCode::MalformedRequest, describe_parse_error(&bad)))?;
        let (poll, item) = (written.poll.parse(), written.item.parse());
        let poll = poll.map_err(|_| no_such(ErrorCode::PollNotFound, "poll"))?;
        let item = item.map_err(|_| no_such(ErrorCode::ItemNotFound, "item"))?;
        Ok(Ballot {
            poll,
            item,
            voter: VoterId::new(&written.voter)
                .map_err(|bad| (ErrorCode::InvalidField, bad.to_string()))?,
            choice: VoteChoice::For,
            request: match written.request {
                Some(name) => vote_request_id(&name, item, VoteChoice::For),
                None => RequestId(mix_bits(self.seed.wrapping_add(self.number))),
            },
            arrived_at: now,
            if_revision: None,
        })
    }
}

impl LineBatch {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// The last step of SplitMix64: turns consecutive numbers into unrelated ones.
fn mix_bits(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn line_too_long() -> ParsedLine {
    let detail = format!("the line has more than {VOTE_LINE_BYTES_MAX} bytes");
    ParsedLine::Refused(ErrorCode::MalformedRequest, detail)
}

fn describe_parse_error(bad: &serde_json::Error) -> String {
    let text = bad.to_string();
    // Drop serde's position: the outcome has the line number.
    let text = text.split(" at line ").next().unwrap_or_default();
    format!("the line is not a vote: {text}")
}

fn no_such(code: ErrorCode, noun: &str) -> (ErrorCode, String) {
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

    /// Every line's number and error code; no code for a ballot.
    fn read(chunks: &[&[u8]]) -> (Vec<(u64, Option<ErrorCode>)>, Vec<Ballot>) {
        let (mut lines, mut batch) = (LineParser::new(1), LineBatch::default());
        for chunk in chunks {
            let mut rest = *chunk;
            while !rest.is_empty() {
                let most = batch.lines.len() + 2;
                let taken = lines.read_chunk(rest, most, now(), &mut batch);
                rest = &rest[taken..];
            }
        }
        lines.finish(now(), &mut batch);
        let shown = batch.lines.into_iter().map(|(number, line)| match line {
            ParsedLine::Ballot => (number, None),
            ParsedLine::Refused(code, _) => (number, Some(code)),
        });
        (shown.collect(), batch.ballots)
    }

    #[test]
    fn invalid_lines_are_refused_and_the_others_are_cast() {
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
    fn lines_without_a_request_id_get_unique_ones() {
        let named = vote("c").replace('}', r#","requestID":"me"}"#);
        let text = [vote("a"), vote("b"), named].join("\n");
        let (_, ballots) = read(&[text.as_bytes()]);
        assert_ne!(ballots[0].request, ballots[1].request);
        let expected = vote_request_id("me", ITEM.parse().unwrap(), VoteChoice::For);
        assert_eq!(ballots[2].request, expected);
    }

    #[test]
    fn an_endless_line_uses_bounded_memory() {
        let (mut lines, mut batch) = (LineParser::new(1), LineBatch::default());
        for _ in 0..100 {
            lines.read_chunk(&[b'x'; 10_000], 10, now(), &mut batch);
            assert!(lines.partial.capacity() <= 2 * VOTE_LINE_BYTES_MAX);
        }
        lines.read_chunk(b"\n", 10, now(), &mut batch);
        assert_eq!(batch.lines, [(1, line_too_long())]);
    }

    /// A fragment of a stream, with or without line breaks.
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
        fn chunking_does_not_change_the_result(
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
            // One outcome per line that is not blank, in order.
            let is_not_blank = |line: &[u8]| {
                line.len() > VOTE_LINE_BYTES_MAX || !line.iter().all(u8::is_ascii_whitespace)
            };
            let expected: Vec<u64> = (1..)
                .zip(text.split(|byte| *byte == b'\n'))
                .filter_map(|(number, line)| is_not_blank(line).then_some(number))
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
