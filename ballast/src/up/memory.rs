//! How the kernel gives memory to the process.

/// Has it given in small pages only. The allocator asks for huge ones where it may,
/// and the kernel clears two megabytes at once for each, in the middle of whatever
/// was being done: while a tenant moved that took up to five milliseconds at a time,
/// under the shard's lock, and doubled what the slowest percent of votes waited.
pub(super) fn in_small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::warn!(%error, "huge pages are still used: some votes may take longer");
    }
}
