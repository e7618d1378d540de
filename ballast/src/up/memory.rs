//! Memory settings of the process.

/// Disables transparent huge pages. The allocator requests them where it can, and the kernel clears
/// two megabytes at once for each. During a migration that took up to five milliseconds at a time
/// under the shard's lock, and doubled the p99 latency of votes.
pub(super) fn disable_huge_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::warn!(%error, "huge pages cannot be disabled: some votes may take longer");
    }
}
