//! Runs the conformance suite on SQLite files, and tests what only concerns files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use super::SqliteStore;
use crate::store::conformance::helpers::*;
use crate::store::conformance::{OpenStore, StoreFixture};
use crate::store::{ExecutionQuery, StoredStatus};

/// A directory with a store's file, and the open store.
struct SqliteFixture {
    _directory: tempfile::TempDir,
    now: Mutex<(PathBuf, Option<SqliteStore>)>,
}

impl SqliteFixture {
    fn file(&self) -> PathBuf {
        self.now.lock().unwrap().0.join("executions.db")
    }

    async fn open_store(&self) -> SqliteStore {
        let store = SqliteStore::open(&self.file()).await.unwrap();
        self.now.lock().unwrap().1 = Some(store.clone());
        store
    }
}

#[async_trait]
impl StoreFixture for SqliteFixture {
    async fn fresh() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let first = directory.path().join("0");
        std::fs::create_dir(&first).unwrap();
        Self {
            _directory: directory,
            now: Mutex::new((first, None)),
        }
    }

    async fn open(&self) -> OpenStore {
        Arc::new(self.open_store().await)
    }

    async fn close(&self, store: OpenStore) {
        drop(store);
        let open = self.now.lock().unwrap().1.take();
        open.unwrap().close().await;
    }

    /// Copies the files of the open store, as a crash would leave them. The
    /// shared-memory index of the log is lost with the process.
    async fn crash(&self, store: OpenStore) {
        let here = self.now.lock().unwrap().0.clone();
        let there = here.with_extension("crashed");
        std::fs::create_dir(&there).unwrap();
        for name in ["executions.db", "executions.db-wal"] {
            std::fs::copy(here.join(name), there.join(name)).unwrap();
        }
        self.close(store).await;
        let next = here.with_file_name(format!("{}1", file_name(&here)));
        std::fs::rename(there, &next).unwrap();
        self.now.lock().unwrap().0 = next;
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

async fn open_pool(path: &Path) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(path);
    SqlitePool::connect_with(options).await.unwrap()
}

crate::store_suite!(SqliteFixture);

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused() {
    let files = SqliteFixture::fresh().await;
    files.open_store().await.close().await;
    let pool = open_pool(&files.file()).await;
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (99, 'from the future', 1, x'00', 0)",
    )
    .execute(&pool)
    .await
    .unwrap();
    pool.close().await;
    let Err(error) = SqliteStore::open(&files.file()).await else {
        panic!("an older program opened a newer file");
    };
    assert!(error.to_string().contains("newer Ballast"), "{error}");
}

#[tokio::test]
async fn a_closed_store_is_one_file() {
    let (files, store) = start::<SqliteFixture>().await;
    ended(&store, "x", StoredStatus::Failed, 5).await;
    store.list(&ExecutionQuery::newest(5)).await.unwrap();
    files.close(store).await;
    let directory = files.file().parent().unwrap().to_owned();
    let names = std::fs::read_dir(directory).unwrap();
    let names: Vec<_> = names.map(|file| file_name(&file.unwrap().path())).collect();
    assert_eq!(names, ["executions.db"]);
}

#[tokio::test]
async fn a_closed_store_refuses_calls() {
    let (files, store) = start::<SqliteFixture>().await;
    let lease = create(&store, "x").await;
    files.close(store.clone()).await;
    assert!(store.append(step(&lease, 2)).await.is_err());
    assert!(store.get("x").await.is_err());
    assert!(store.changes().changed().await.is_err());
}

/// A failed transaction fails its group and changes nothing, and the next one
/// works. Both when SQLite has rolled back by itself, as with a full disk, and when
/// the writer must do so.
#[tokio::test]
async fn a_failed_transaction_changes_nothing() {
    let (files, store) = start::<SqliteFixture>().await;
    let x = create(&store, "x").await;
    let y = create(&store, "y").await;
    let outside = open_pool(&files.file()).await;
    for (n, how) in ["ROLLBACK", "ABORT", "FAIL"].into_iter().enumerate() {
        let full = format!(
            "CREATE TRIGGER full BEFORE UPDATE ON executions
             BEGIN SELECT RAISE({how}, 'the disk is full'); END"
        );
        let full = sqlx::query(sqlx::AssertSqlSafe(full));
        full.execute(&outside).await.unwrap();
        let seq = 2 + n as u64;
        let before = history(&store, "x").await;
        for _ in 0..3 {
            let (one, two) = tokio::join!(store.append(step(&x, seq)), store.append(step(&y, seq)));
            assert!(one.is_err() && two.is_err());
            assert!(store.post("x", post(how, 5)).await.is_err());
            assert_eq!(history(&store, "x").await, before);
        }
        let emptied = sqlx::query("DROP TRIGGER full");
        emptied.execute(&outside).await.unwrap();
        append(&store, step(&x, seq)).await;
        append(&store, step(&y, seq)).await;
        assert_eq!(post_new(&store, "x", how, 5).await, 1 + n as u64);
        assert_eq!(history(&store, "x").await.len(), before.len() + 1);
    }
    outside.close().await;
}

/// Deleted executions leave no rows, and ended ones no snapshots.
#[tokio::test]
async fn deleted_executions_leave_no_rows() {
    let (files, store) = start::<SqliteFixture>().await;
    let lease = create(&store, "x").await;
    append(&store, with_snapshot(step(&lease, 2), "two")).await;
    post_new(&store, "x", "k", 5).await;
    let last = with_snapshot(step(&lease, 3), "three");
    append(&store, ending_step(last, StoredStatus::Failed, 5)).await;
    let pool = open_pool(&files.file()).await;
    let rows = async |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        let (rows,): (i64,) = sqlx::query_as(sqlx::AssertSqlSafe(sql))
            .fetch_one(&pool)
            .await
            .unwrap();
        rows
    };
    assert_eq!(rows("snapshots").await, 0);
    assert_eq!(rows("entries").await, 3);
    store.forget_ended(6, 10).await.unwrap();
    for table in ["executions", "payloads", "entries", "snapshots", "messages"] {
        assert_eq!(rows(table).await, 0, "{table}");
    }
}

#[tokio::test]
async fn a_removed_file_accepts_no_steps() {
    let (files, store) = start::<SqliteFixture>().await;
    let lease = create(&store, "x").await;
    std::fs::remove_file(files.file()).unwrap();
    assert!(store.append(step(&lease, 2)).await.is_err());
}

/// Two processes may share a file: each sees the other's writes, and they never
/// hold the same execution.
#[tokio::test]
async fn two_processes_may_share_a_file() {
    let (files, one) = start::<SqliteFixture>().await;
    let two: OpenStore = Arc::new(SqliteStore::open(&files.file()).await.unwrap());
    for n in 0..30 {
        create_new(&one, parked(&format!("x{n}"), Some(n))).await;
    }
    let (mine, theirs) = tokio::join!(claim(&one, "a", 20), claim(&two, "b", 20));
    assert_eq!(mine.len() + theirs.len(), 21);
    for held in &mine {
        append(&one, step(&held.lease, 2)).await;
        assert_eq!(get_row(&two, &held.row.id).await.next_seq, 3);
    }
    let claims = claim(&two, "b", 5_000).await;
    assert_eq!(claims.len(), 30);
    for held in &mine {
        assert!(one.append(step(&held.lease, 3)).await.is_err());
    }
    let lease = create(&two, "y").await;
    append(&one, step(&lease, 2)).await;
    assert_eq!(get_row(&two, "y").await.number, 31);
}

/// Steps and reads seek in an index; no query scans a table.
#[tokio::test]
async fn no_query_scans_a_table() {
    let (files, _store) = start::<SqliteFixture>().await;
    let pool = open_pool(&files.file()).await;
    let questions = [
        "UPDATE executions SET taken = w.value ->> 1 FROM json_each('[]') w
         WHERE number = w.value ->> 0",
        "UPDATE payloads SET outcome = w.value ->> 1 FROM json_each('[]') w
         WHERE execution = w.value ->> 0",
        "SELECT min(due_at_ms) FROM executions WHERE due_at_ms IS NOT NULL",
        "SELECT * FROM executions WHERE due_at_ms <= 5 ORDER BY due_at_ms, number LIMIT 5",
        "SELECT * FROM executions e WHERE true AND e.number < 5 ORDER BY e.number DESC LIMIT 5",
        "SELECT * FROM executions WHERE workflow = 'a' AND number < 5 ORDER BY number DESC LIMIT 5",
        "SELECT * FROM executions WHERE status = 1 AND number < 5 ORDER BY number DESC LIMIT 5",
        "SELECT * FROM executions WHERE workflow = 'a' AND status = 1 ORDER BY number DESC LIMIT 5",
        "SELECT * FROM executions WHERE ended_at_ms < 5 ORDER BY ended_at_ms, number LIMIT 5",
        "SELECT * FROM json_each('[]') w CROSS JOIN entries e
         ON e.key > w.value ->> 0 AND e.key < w.value ->> 1 ORDER BY w.key, e.key",
    ];
    for sql in questions {
        let plan: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
                .fetch_all(&pool)
                .await
                .unwrap();
        for (.., line) in plan {
            let scans = line.starts_with("SCAN") && !line.contains("w VIRTUAL TABLE");
            let sorts = line.contains("TEMP B-TREE") && !sql.contains("w.key");
            assert!(!scans && !sorts, "{sql}\n{line}");
        }
    }
}
