//! A cursor over a text, for the parsers of paths, filters and calls.

use super::SyntaxError;

/// A position in a text.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn at_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Skips `wanted` if it comes next.
    pub(super) fn eat(&mut self, wanted: &str) -> bool {
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len();
        }
        found
    }

    pub(super) fn expect(&mut self, wanted: &str) -> Result<(), SyntaxError> {
        if self.eat(wanted) {
            return Ok(());
        }
        Err(self.unexpected(&format!("'{wanted}'")))
    }

    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    pub(super) fn skip_blanks(&mut self) {
        self.take_while(char::is_whitespace);
    }

    /// The error that something else was expected here.
    pub(super) fn unexpected(&self, wanted: &str) -> SyntaxError {
        let found = match self.peek() {
            Some(c) => format!("'{c}'"),
            None => "the end".to_owned(),
        };
        let place = self.text[..self.at].chars().count() + 1;
        SyntaxError::new(format!(
            "cannot parse '{}': expected {wanted} at character {place}, found {found}",
            self.text
        ))
    }

    /// Reads a quoted text without unescaping it. A backslash escapes the next
    /// character.
    pub(super) fn quoted(&mut self, quote: char) -> Result<&'t str, SyntaxError> {
        let start = self.at + quote.len_utf8();
        self.expect(quote.encode_utf8(&mut [0; 4]))?;
        loop {
            let end = self.at;
            match self.take() {
                Some('\\') => {
                    self.take();
                }
                Some(c) if c == quote => return Ok(&self.text[start..end]),
                Some(_) => {}
                None => return Err(self.unexpected(&format!("a closing {quote}"))),
            }
        }
    }

    /// An integer with an optional sign.
    pub(super) fn integer(&mut self) -> Result<i64, SyntaxError> {
        let before = self.clone();
        let sign = if self.eat("-") { "-" } else { "" };
        let digits = self.take_while(|c| c.is_ascii_digit());
        format!("{sign}{digits}")
            .parse()
            .map_err(|_| before.unexpected("an integer"))
    }

    /// A JSON number.
    pub(super) fn number(&mut self) -> Result<serde_json::Number, SyntaxError> {
        let before = self.clone();
        let text =
            self.take_while(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E'));
        serde_json::from_str(text).map_err(|_| before.unexpected("a number"))
    }
}
