//! Style sheets, scripts and icons, embedded in the binary. Their URLs contain a hash
//! of their content, so browsers may cache them without expiry.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ballast_domain::{Error, ErrorCode};
use sha2::{Digest, Sha256};

use crate::page::error::ErrorPage;

/// Hex digits of the hash in a URL.
const DIGITS: usize = 16;

/// An embedded file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asset {
    Style,
    Script,
    Theme,
    Charts,
    ChartsStyle,
    Icon,
}

impl Asset {
    const ALL: [Self; 6] = [
        Self::Style,
        Self::Script,
        Self::Theme,
        Self::Charts,
        Self::ChartsStyle,
        Self::Icon,
    ];

    fn file(self) -> (&'static str, &'static str, &'static [u8]) {
        match self {
            Self::Style => ("console", "css", include_bytes!("../assets/console.css")),
            Self::Script => ("console", "js", include_bytes!("../assets/console.js")),
            Self::Theme => ("theme", "js", include_bytes!("../assets/theme.js")),
            Self::Charts => ("uplot", "js", include_bytes!("../assets/vendor/uplot.js")),
            Self::ChartsStyle => ("uplot", "css", include_bytes!("../assets/vendor/uplot.css")),
            Self::Icon => ("icon", "svg", include_bytes!("../assets/icon.svg")),
        }
    }

    /// Its URL.
    pub(crate) fn url(self) -> String {
        format!("/console/assets/{}", self.name())
    }

    fn name(self) -> &'static str {
        static NAMES: LazyLock<Vec<String>> =
            LazyLock::new(|| Asset::ALL.into_iter().map(hashed_name).collect());
        let index = Self::ALL.iter().position(|asset| *asset == self);
        index
            .and_then(|index| NAMES.get(index))
            .map_or("", String::as_str)
    }
}

fn hashed_name(asset: Asset) -> String {
    let (stem, ending, bytes) = asset.file();
    let hash = Sha256::digest(bytes);
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = digits.get(..DIGITS).unwrap_or(&digits);
    format!("{stem}.{digits}.{ending}")
}

/// Serves a file.
pub(crate) async fn serve(Path(name): Path<String>) -> Result<Response, ErrorPage> {
    let found = Asset::ALL.into_iter().find(|asset| asset.name() == name);
    let Some(asset) = found else {
        let detail = "no such file; the console may have been updated: reload the page";
        return Err(Error::new(ErrorCode::NotFound, detail).into());
    };
    let (_, ending, bytes) = asset.file();
    let kind = match ending {
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    };
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    Ok((headers, bytes).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_url_with_its_hash() {
        let names: std::collections::BTreeSet<_> = Asset::ALL.iter().map(|a| a.name()).collect();
        assert_eq!(names.len(), Asset::ALL.len());
        for asset in Asset::ALL {
            let (stem, ending, _) = asset.file();
            let rest = asset.name().strip_prefix(stem).unwrap();
            let digits = rest.trim_start_matches('.').strip_suffix(ending).unwrap();
            assert_eq!(digits.len(), DIGITS + 1, "{}", asset.name());
        }
    }
}
