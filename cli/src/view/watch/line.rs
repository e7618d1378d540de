//! A line of the live view: pieces of text with styles. It is truncated before it is coloured, so
//! that no escape sequence is cut.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::output::Screen;
use crate::table::sanitize;

/// The style of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// A line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StyledLine(Vec<(Style, String)>);

impl StyledLine {
    /// A line of one piece.
    pub(crate) fn new(paint: Style, text: &str) -> Self {
        Self::default().with(paint, text)
    }

    /// Adds a piece, without control characters.
    #[must_use]
    pub(crate) fn with(mut self, paint: Style, text: &str) -> Self {
        self.0.push((paint, sanitize(text)));
        self
    }

    /// Adds a piece after two spaces, unless it is empty.
    #[must_use]
    pub(crate) fn then_spaced(self, paint: Style, text: &str) -> Self {
        if text.is_empty() {
            return self;
        }
        self.with(Style::Plain, "  ").with(paint, text)
    }

    /// Its width in columns.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.width()).sum()
    }

    /// Whether a piece has this style.
    pub(crate) fn has_style(&self, paint: Style) -> bool {
        self.0.iter().any(|(other, _)| *other == paint)
    }

    /// Its plain text.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Truncates the line to a width.
    #[must_use]
    pub(crate) fn cut(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut room = columns.saturating_sub(1);
        let mut kept = Self::default();
        for (paint, text) in self.0 {
            let fits = |c: &char| {
                let width = c.width().unwrap_or(0);
                let fits = width <= room;
                room = room.saturating_sub(width);
                fits
            };
            let piece: String = text.chars().take_while(fits).collect();
            let cut = piece.len() < text.len();
            let piece = if cut { format!("{piece}…") } else { piece };
            kept.0.push((paint, piece));
            if cut {
                break;
            }
        }
        kept
    }

    /// The line with its escape sequences.
    pub(crate) fn painted(&self, screen: &Screen) -> String {
        let piece = |(paint, text): &(Style, String)| match paint {
            Style::Plain => text.clone(),
            Style::Bold => screen.bold(text),
            Style::Dim => screen.dim(text),
            Style::Red => screen.red(text),
            Style::Green => screen.green(text),
            Style::Yellow => screen.yellow(text),
            Style::Cyan => screen.cyan(text),
        };
        self.0.iter().map(piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_and_never_its_paint() {
        let line = StyledLine::new(Style::Bold, "copy").then_spaced(Style::Dim, "for 12 s");
        assert_eq!(line.width(), 14);
        let mut screen = Screen::plain();
        assert_eq!(line.clone().cut(14).painted(&screen), "copy  for 12 s");
        assert_eq!(line.clone().cut(8).painted(&screen), "copy  f…");
        screen.color = true;
        let cut = line.cut(3);
        assert_eq!(
            (cut.width(), cut.painted(&screen).as_str()),
            (3, "\x1b[1mco…\x1b[0m")
        );
        let wide = StyledLine::new(Style::Plain, "複製する");
        assert_eq!(wide.width(), 8, "each takes two columns");
        assert_eq!(wide.cut(6).text(), "複製…");
        let sly = StyledLine::new(Style::Plain, "a\x1b[2Jb");
        assert!(!sly.painted(&screen).contains('\x1b'));
    }
}
