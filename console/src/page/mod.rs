//! What all pages are made of.

pub(crate) mod error;
pub(crate) mod finish;
pub(crate) mod flash;
pub(crate) mod form;
pub(crate) mod format;
pub(crate) mod layout;
pub(crate) mod part;
