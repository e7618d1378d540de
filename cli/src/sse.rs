//! Parses server-sent events: pure, bytes in, events out.

/// An event with its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ServerEvent {
    pub(crate) event: String,
    pub(crate) data: String,
}

/// Parses a stream that arrives in arbitrary pieces.
#[derive(Debug, Default)]
pub(crate) struct ServerEventReader {
    /// The incomplete last line.
    rest: Vec<u8>,
    event: String,
    data: Vec<String>,
}

impl ServerEventReader {
    /// Adds a piece; returns the events that it completes.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<ServerEvent> {
        self.rest.extend_from_slice(piece);
        let mut sent = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            sent.extend(self.line(line.trim_end_matches(['\n', '\r'])));
        }
        sent
    }

    fn line(&mut self, line: &str) -> Option<ServerEvent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let data = std::mem::take(&mut self.data);
            return (!data.is_empty()).then(|| ServerEvent {
                event,
                data: data.join("\n"),
            });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event),
            "data" => self.data.push(value.to_owned()),
            // Ignore comments, which keep the connection alive, and ids.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(event: &str, data: &str) -> ServerEvent {
        let (event, data) = (event.to_owned(), data.to_owned());
        ServerEvent { event, data }
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let stream = "event: execution\ndata: {\"ä\":1}\n\n: still here\n\r\ndata:a\r\ndata: b\r\n\r\nevent: end\ndata: x\n\nevent: end\ndata: cut off";
        let whole = ServerEventReader::default().push(stream.as_bytes());
        assert_eq!(
            whole,
            [
                sent("execution", "{\"ä\":1}"),
                sent("", "a\nb"),
                sent("end", "x")
            ]
        );
        for size in 1..stream.len() {
            let mut reader = ServerEventReader::default();
            let pieces = stream.as_bytes().chunks(size);
            let found: Vec<_> = pieces.flat_map(|piece| reader.push(piece)).collect();
            assert_eq!(found, whole, "{size}");
        }
    }
}
