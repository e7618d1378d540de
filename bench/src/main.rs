//! The benchmarks of Ballast: each prints a table, with a reference measured in the same
//! run.
//!
//! ```text
//!   cargo run --release -p ballast-bench -- placement
//!   cargo run --release -p ballast-bench -- keys
//!   cargo run --release -p ballast-bench -- registry --tenants 100000
//!   cargo run --release -p ballast-bench -- votes --stored 1000000,10000000
//!   cargo run --release -p ballast-bench -- workflow
//!   cargo build --release && cargo run --release -p ballast-bench -- http
//!   cargo build --release && cargo run --release -p ballast-bench -- moves
//!   cargo build --release && cargo run --release -p ballast-bench -- load
//!   cargo run --release -p ballast-bench -- detect
//!   cargo build --release && cargo run --release -p ballast-bench -- console
//! ```
//! One file per benchmark. They only measure; nothing is asserted.

// Printing is what this program is for.
#![allow(clippy::print_stdout)]

mod console;
mod detect;
mod http;
mod keys;
mod load;
mod moves;
mod options;
mod placement;
mod registry;
mod sample;
mod stopwatch;
mod table;
mod votes;
mod workflow;

use options::{Benchmark, Inner, Options};

/// The same allocator as in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("--bare") {
        return http::bare::serve().await;
    }
    let Some(options) = Options::parse(std::env::args().skip(1))? else {
        println!("{}", options::USAGE);
        return Ok(());
    };
    match &options.inner {
        Some(Inner::Reopen(directory)) => return votes::reopen(directory).await,
        Some(Inner::ReopenWorkflows(path)) => return workflow::reopen(path).await,
        None => {}
    }
    for benchmark in &options.benchmarks {
        match benchmark {
            Benchmark::Placement => placement::run()?,
            Benchmark::Keys => keys::run().await?,
            Benchmark::Registry => registry::run(&options).await?,
            Benchmark::Votes => votes::run(&options).await?,
            Benchmark::Workflow => workflow::run(&options).await?,
            Benchmark::Http => http::run().await?,
            Benchmark::Moves => moves::run(&options).await?,
            Benchmark::Load => load::run().await?,
            Benchmark::Detect => detect::run()?,
            Benchmark::Console => console::run().await?,
        }
    }
    Ok(())
}
