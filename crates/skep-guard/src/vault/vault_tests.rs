#![allow(clippy::unwrap_used)]
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;

use skep_core::policy::vault::VALUE_BYTES;
use tempfile::TempDir;

use super::*;

/// A vault whose rows are kept in memory, and the places around it.
struct Bench {
    folder: TempDir,
    rows: Arc<Mutex<BTreeMap<(i64, String), VaultRow>>>,
    /// Writes that are still kept; those after them fail, as if the process had ended.
    left: Arc<Mutex<usize>>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("hive")).unwrap();
        Self { folder, rows: Arc::default(), left: Arc::new(Mutex::new(usize::MAX)) }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(".config/skep/key")
    }

    fn variables(&self) -> impl Fn(&str) -> Option<String> + use<> {
        let home = self.folder.path().to_str().unwrap().to_owned();
        move |name| (name == "HOME").then(|| home.clone())
    }

    /// As a start finds it.
    fn open(&self) -> Vault {
        self.open_with(&self.variables())
    }

    fn open_with(&self, variables: &dyn Fn(&str) -> Option<String>) -> Vault {
        let vault = Vault::open(&self.folder.path().join("hive"), variables);
        let rows = self.rows.lock().unwrap().values().cloned().collect();
        let (kept, left) = (Arc::clone(&self.rows), Arc::clone(&self.left));
        let keep: KeepVault = Arc::new(move |change, _| {
            let (kept, left) = (Arc::clone(&kept), Arc::clone(&left));
            Box::pin(async move {
                let mut left = left.lock().unwrap();
                *left = left.checked_sub(1).ok_or("ended")?;
                keep(&mut kept.lock().unwrap(), change);
                Ok(())
            })
        });
        vault.restore(rows, keep);
        vault
    }

    fn key_ids(&self) -> Vec<String> {
        self.rows.lock().unwrap().values().map(|row| row.key_id.clone()).collect()
    }
}

fn keep(rows: &mut BTreeMap<(i64, String), VaultRow>, change: VaultWrite) {
    let put = |rows: &mut BTreeMap<_, _>, row: VaultRow| {
        rows.insert((row.owner, row.name.clone()), row);
    };
    match change {
        VaultWrite::Put(row) => put(rows, row),
        VaultWrite::Reseal(many) => many.into_iter().for_each(|row| put(rows, row)),
        VaultWrite::Remove { owner, name } => drop(rows.remove(&(owner, name))),
        VaultWrite::RemoveOwner(owner) => rows.retain(|key, _| key.0 != owner),
        VaultWrite::Used { .. } => {}
    }
}

fn new(owner: i64, name: &str, value: &str, secret: bool) -> NewVaultEntry {
    let (name, value) = (name.to_owned(), Some(SecretString::from(value)));
    let given_by = if secret { Owner::People } else { Owner::Agent };
    NewVaultEntry { owner, name, value, secret, given_by, hosts: Vec::new() }
}

async fn set(vault: &Vault, owner: i64, name: &str, value: &str) {
    vault.set(new(owner, name, value, true), None, 1).await.unwrap();
}

fn value(vault: &Vault, owner: i64, name: &str) -> Result<String, VaultError> {
    vault.value(owner, name).map(|(value, _)| value.expose_secret().to_owned())
}

#[tokio::test]
async fn vault_the_first_entry_makes_the_key_and_a_start_opens_it() {
    let bench = Bench::new();
    let vault = bench.open();
    assert!(!bench.file().exists());
    set(&vault, HIVE, "ALL", "value-of-all-1").await;
    set(&vault, 7, "OWN", "value-of-seven").await;
    let mode = fs::metadata(bench.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let vault = bench.open();
    let found = |owner, name| value(&vault, owner, name).ok();
    assert_eq!(found(7, "OWN").as_deref(), Some("value-of-seven"));
    assert_eq!(found(7, "ALL").as_deref(), Some("value-of-all-1"));
    // Another agent has what the hive has, and nothing of the first one.
    assert_eq!(found(8, "ALL").as_deref(), Some("value-of-all-1"));
    assert_eq!(found(8, "OWN"), None);
    assert_eq!(found(HIVE, "OWN"), None);
    let filled = vault.fill(7, "Bearer {{vault:OWN}}").unwrap();
    assert_eq!(filled.text.expose_secret(), "Bearer value-of-seven");
    assert_eq!(filled.hosts, [vec![]]);
    assert_eq!(skep_scrub::known().clean("it is value-of-seven"), "it is [secret:vault.OWN]");
    vault.remove_owner(7).await.unwrap();
    assert_eq!(bench.rows.lock().unwrap().len(), 1);
    assert_eq!(value(&vault, 7, "OWN"), Err(VaultError::Unknown { name: "OWN".into() }));
}

#[tokio::test]
async fn vault_rows_that_were_moved_cut_or_changed_do_not_open() {
    let bench = Bench::new();
    let vault = bench.open();
    for (owner, name) in [(1, "A"), (1, "B"), (2, "A")] {
        set(&vault, owner, name, &format!("value-{owner}-{name}-long")).await;
    }
    let of = |owner: i64, name: &str| (owner, name.to_owned());
    {
        let mut rows = bench.rows.lock().unwrap();
        let (one, two) = (rows[&of(1, "A")].sealed.clone(), rows[&of(2, "A")].sealed.clone());
        rows.get_mut(&of(1, "A")).unwrap().sealed = two;
        rows.get_mut(&of(2, "A")).unwrap().sealed = one;
        rows.get_mut(&of(1, "B")).unwrap().sealed.truncate(30);
    }
    let vault = bench.open();
    for entry in vault.list() {
        let VaultRow { name, key_id, .. } = entry.row;
        assert_eq!(entry.locked, Some(VaultError::Sealed { name, key_id }));
    }
    // What cannot be opened can be set again.
    set(&vault, 1, "B", "another-value").await;
    assert_eq!(value(&bench.open(), 1, "B").as_deref(), Ok("another-value"));
}

#[tokio::test]
async fn vault_a_missing_or_wrong_key_locks_entries_and_says_why() {
    let bench = Bench::new();
    set(&bench.open(), HIVE, "KEY", "value-of-the-key").await;
    let good = fs::read_to_string(bench.file()).unwrap();
    let (id, _) = good.lines().last().unwrap().split_once(' ').unwrap();
    let path = bench.file();
    let other = format!("{id} {}\n", BASE64);
    let (name, key_id) = ("KEY".to_owned(), id.to_owned());
    let cases = [
        (String::new(), VaultError::Empty { path: path.clone() }),
        (other, VaultError::Sealed { name: name.clone(), key_id: key_id.clone() }),
        (format!("x {BASE64}\n"), VaultError::NoSuchKey { name, key_id }),
        ("no key\n".into(), VaultError::Malformed { path: path.clone(), line: 1 }),
        (format!("{good}{good}"), VaultError::Malformed { path: path.clone(), line: 4 }),
    ];
    for (text, expected) in cases {
        fs::write(&path, &text).unwrap();
        let vault = bench.open();
        assert_eq!(value(&vault, HIVE, "KEY"), Err(expected.clone()), "{text}");
        assert!(!expected.to_string().contains(BASE64));
        // The right key counts as soon as somebody looks.
        fs::write(&path, &good).unwrap();
        assert!(vault.unlock());
        assert_eq!(value(&vault, HIVE, "KEY").as_deref(), Ok("value-of-the-key"));
    }
    // Another vault's key adds nothing beside entries that it does not open.
    fs::write(&path, format!("x {BASE64}\n")).unwrap();
    let vault = bench.open();
    let foreign = VaultError::Foreign { path: path.clone() };
    let added = vault.set(new(HIVE, "OTHER", "another-value", true), None, 1).await;
    assert_eq!(added, Err(foreign));
    assert_eq!(bench.key_ids().len(), 1);
    // Whoever has lost the key sets again what was sealed with it.
    let bench_of_lost = Bench::new();
    set(&bench_of_lost.open(), HIVE, "KEY", "value-of-the-key").await;
    fs::write(bench_of_lost.file(), format!("x {BASE64}\n")).unwrap();
    let lost = bench_of_lost.open();
    set(&lost, HIVE, "KEY", "value-set-again").await;
    set(&lost, HIVE, "OTHER", "another-value").await;
    fs::write(&path, &good).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let exposed = VaultError::Exposed { path: path.clone(), mode: 0o644 };
    assert_eq!(value(&bench.open(), HIVE, "KEY"), Err(exposed));
    fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    let why = "it is no regular file".to_owned();
    let pipe = VaultError::Unreadable { path: path.clone(), why };
    assert_eq!(value(&bench.open(), HIVE, "KEY"), Err(pipe));
    fs::remove_file(&path).unwrap();
    let vault = bench.open();
    let missing = VaultError::NoKeyFile { path: path.clone() };
    assert_eq!(value(&vault, HIVE, "KEY"), Err(missing.clone()));
    // No new key is made beside entries that need the old one.
    let refused = vault.set(new(HIVE, "OTHER", "another-value", true), None, 1).await;
    assert_eq!(refused, Err(missing));
    assert!(!path.exists());
}

/// 32 bytes.
const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

#[tokio::test]
async fn vault_the_place_of_the_key() {
    let bench = Bench::new();
    let folder = bench.folder.path();
    let named = folder.join("named");
    let with = |name: &'static str, path: &Path| {
        let (usual, path) = (bench.variables(), path.to_str().unwrap().to_owned());
        move |asked: &str| if asked == name { Some(path.clone()) } else { usual(asked) }
    };
    let refused = async |vault: Vault| {
        vault.set(new(HIVE, "A", "value-one-two", true), None, 1).await.unwrap_err()
    };
    // A file that the operator names is not made.
    let vault = bench.open_with(&with(KEY_VARIABLE, &named));
    assert_eq!(refused(vault).await, VaultError::NoKeyFile { path: named.clone() });
    let inside = folder.join("hive/run/../key");
    let vault = bench.open_with(&with(KEY_VARIABLE, &inside));
    assert_eq!(refused(vault).await.code(), "vault_locked");
    fs::write(&named, format!("k1 {BASE64}\n")).unwrap();
    fs::set_permissions(&named, fs::Permissions::from_mode(0o600)).unwrap();
    let vault = bench.open_with(&with(KEY_VARIABLE, &named));
    set(&vault, HIVE, "A", "value-one-two").await;
    assert_eq!(bench.key_ids(), ["k1"]);
    // One of a service manager is used before the usual one, and cannot be added to.
    let credentials = folder.join("credentials");
    fs::create_dir(&credentials).unwrap();
    fs::copy(&named, credentials.join(CREDENTIAL)).unwrap();
    let vault = bench.open_with(&with("CREDENTIALS_DIRECTORY", &credentials));
    assert_eq!(value(&vault, HIVE, "A").as_deref(), Ok("value-one-two"));
    assert_eq!(vault.rotate(None).await.unwrap_err().code(), "vault_read_only");
    // Whoever adds a line there and rotates goes over to it.
    let two = format!("k1 {BASE64}\nk2 {}\n", BASE64.replace("AAEC", "AAAA"));
    fs::write(credentials.join(CREDENTIAL), two).unwrap();
    assert_eq!(vault.rotate(None).await, Ok(("k2".to_owned(), 1)));
    assert_eq!(bench.key_ids(), ["k2"]);
    assert!(!bench.file().exists());
}

#[tokio::test]
async fn vault_a_rotation_cut_off_at_any_write_loses_nothing() {
    for kept in 0..4 {
        let bench = Bench::new();
        let vault = bench.open();
        let many = RESEALED + 3;
        for number in 0..many {
            set(&vault, HIVE, &format!("E{number}"), &format!("value-number-{number}")).await;
        }
        *bench.left.lock().unwrap() = kept;
        let rotated = vault.rotate(None).await;
        assert_eq!(rotated.is_ok(), kept >= 2, "{kept}");
        // Whatever is on the disk by then opens, and is sealed anew by the next start.
        *bench.left.lock().unwrap() = usize::MAX;
        let vault = bench.open();
        let check = |vault: &Vault| {
            for number in 0..many {
                let found = value(vault, HIVE, &format!("E{number}"));
                assert_eq!(found, Ok(format!("value-number-{number}")), "{kept}");
            }
        };
        check(&vault);
        let expected = [many, 3, 0, 0][kept];
        assert_eq!(vault.finish_rotation().await, Ok(expected), "{kept}");
        check(&bench.open());
        let mut ids = bench.key_ids();
        ids.dedup();
        assert_eq!(ids, [vault.key().1.unwrap()]);
        let lines = fs::read_to_string(bench.file()).unwrap();
        assert_eq!(lines.lines().filter(|line| !line.starts_with('#')).count(), 2);
    }
}

#[tokio::test]
async fn vault_two_homes_share_a_key_file() {
    let (one, two) = (Bench::new(), Bench::new());
    let variables = one.variables();
    let (first, second) = (one.open_with(&variables), two.open_with(&variables));
    set(&first, HIVE, "A", "value-of-first").await;
    set(&second, HIVE, "A", "value-of-second").await;
    first.rotate(None).await.unwrap();
    second.rotate(None).await.unwrap();
    first.rotate(None).await.unwrap();
    assert_eq!(value(&one.open_with(&variables), HIVE, "A").as_deref(), Ok("value-of-first"));
    assert_eq!(value(&two.open_with(&variables), HIVE, "A").as_deref(), Ok("value-of-second"));
}

#[tokio::test]
async fn vault_what_an_agent_may_set_itself() {
    let bench = Bench::new();
    let vault = bench.open();
    set(&vault, 5, "PEOPLE", "value-of-people").await;
    let own = async |name: &str, value: &str| {
        vault.set(new(5, name, value, false), None, 1).await.map(|_| ()).map_err(|it| it.code())
    };
    assert_eq!(own("PEOPLE", "value-of-agent").await, Err("vault_refused"));
    assert_eq!(vault.remove(5, "PEOPLE", false, None).await.unwrap_err().code(), "vault_refused");
    assert_eq!(own("a b", "x").await, Err("vault_invalid"));
    assert_eq!(own("LONG", &"x".repeat(VALUE_BYTES + 1)).await, Err("vault_invalid"));
    assert_eq!(own("MARK", "[secret:vault.PEOPLE]").await, Err("vault_invalid"));
    // Ordinary words are kept, and stay ordinary words for everybody.
    assert_eq!(own("WORDS", "ordinary words here").await, Ok(()));
    assert_eq!(own("TOKEN", "own-token-0aB3dE5gH7jK").await, Ok(()));
    let said = skep_scrub::known().clean("ordinary words here own-token-0aB3dE5gH7jK").into_owned();
    assert_eq!(said, "ordinary words here [secret:vault.TOKEN]");
    for number in 0..OWN_ENTRIES - 3 {
        assert_eq!(own(&format!("N{number}"), "x").await, Ok(()));
    }
    assert_eq!(own("MORE", "x").await, Err("vault_invalid"));
    assert_eq!(own("TOKEN", "own-token-9876543210").await, Ok(()));
}

#[tokio::test]
async fn vault_what_an_agent_gives_another_one_hides_no_words() {
    let bench = Bench::new();
    let vault = bench.open();
    let give = async |name: &str, value: &str| {
        let entry = NewVaultEntry { given_by: Owner::Agent, ..new(5, name, value, true) };
        vault.set(entry, None, 1).await.map(|row| row.secret).map_err(|it| it.to_string())
    };
    let clean = |text: &str| skep_scrub::known().clean(text).into_owned();
    for word in ["operator-of-hive", "password: x", "/home/somebody/notes"] {
        let refused = give("C", word).await.unwrap_err();
        assert!(refused.contains("ordinary words cannot be hidden"), "{refused}");
        assert_eq!(clean(word), word);
    }
    let swapped = give("sk-0123456789abcdefSWAP", "PRESS_TOKEN").await.unwrap_err();
    assert!(!swapped.contains("SWAP"), "{swapped}");
    // The agent's own part, now and after a start: what people keep is found before it.
    assert_eq!(give("C", "given-aB3dE5gH7jabcd").await, Ok(true));
    let is_of_agent = |vault: &Vault| {
        let entry = vault.list().into_iter().find(|entry| entry.row.name == "C").unwrap();
        let (value, row) = vault.value(5, "C").unwrap();
        assert_eq!(entry.row, row);
        given_by(&row, value.expose_secret()) == Owner::Agent
    };
    assert!(is_of_agent(&vault) && is_of_agent(&bench.open()));
    set(&vault, HIVE, "PEOPLE", "abcd and words of people").await;
    let said = clean("given-aB3dE5gH7jabcd given-aB3dE5gH7jabcd and words of people");
    assert_eq!(said, "[secret:vault.C] given-aB3dE5gH7j[secret:vault.PEOPLE]");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn vault_a_rotation_among_changes_and_uses_loses_nothing() {
    let bench = Bench::new();
    let vault = Arc::new(bench.open());
    set(&vault, HIVE, "USED", "value-in-use-000").await;
    let changes = (0..4).map(|writer| {
        let vault = Arc::clone(&vault);
        tokio::spawn(async move {
            for number in 0..40 {
                let name = format!("W{writer}.{}", number % 5);
                set(&vault, HIVE, &name, &format!("value-{writer}-{number}")).await;
                let filled = vault.fill(HIVE, "{{vault:USED}}").unwrap();
                assert_eq!(filled.text.expose_secret(), "value-in-use-000");
                tokio::task::yield_now().await;
            }
        })
    });
    let changes: Vec<_> = changes.collect();
    let mut keys = Vec::new();
    for _ in 0..8 {
        keys.push(vault.rotate(None).await.unwrap().0);
        tokio::task::yield_now().await;
    }
    for change in changes {
        change.await.unwrap();
    }
    keys.dedup();
    assert_eq!(keys.len(), 8);
    let after = bench.open();
    for writer in 0..4 {
        for number in 35..40 {
            let found = value(&after, HIVE, &format!("W{writer}.{}", number % 5));
            assert_eq!(found, Ok(format!("value-{writer}-{number}")));
        }
    }
    assert_eq!(bench.key_ids(), vec![keys.pop().unwrap(); 21]);
}

#[tokio::test]
async fn vault_an_entry_that_is_added_replaces_none() {
    let vault = Bench::new().open();
    let add = |owner, text| vault.add(new(owner, "ONE", text, true), None, 1);
    add(HIVE, "value-of-the-first").await.unwrap();
    let refused = add(HIVE, "value-of-the-second").await.unwrap_err();
    assert_eq!(refused, VaultError::Exists { name: "ONE".into() });
    // Of another owner it is another entry.
    add(7, "value-of-the-third").await.unwrap();
    assert_eq!(value(&vault, HIVE, "ONE").as_deref(), Ok("value-of-the-first"));
    assert_eq!(value(&vault, 7, "ONE").as_deref(), Ok("value-of-the-third"));
}

#[test]
fn vault_ids_hashes_hosts_and_files_do_not_look_like_keys() {
    let id = "01a1ed9e-c0f0-712b-85f3-ec6febb28361";
    let hash = "ec6febb28361ec6febb28361ec6febb28361abcd";
    let names = [
        id,
        &id[9..],
        &id[19..],
        &format!("approvals/{id}"),
        &format!("turn-{id}.part2"),
        hash,
        "d111111abcdef8.cloudfront.net",
        "D111111ABCDEF8.CloudFront.NET",
        "d111111abcdef8.cloudfront.net.",
        "d111111abcdef8.xn--p1ai",
        "d111111abcdef8.cloudfront.net/path",
        "drop/to=d111111abcdef8.evil.example",
        "notes-0123456789ab.txt",
        "claude-sonnet-4-5-20250929",
    ];
    for name in names {
        assert!(!is_like_key(name), "{name}");
    }
    for key in ["own-token-0123456789ab", "ec6febb28361ec6febb28361"] {
        assert!(is_like_key(key) && !is_hidden(key, false), "{key}");
    }
    let token = "0123456789abcdef0123456789abcdef";
    for name in [
        &format!("{token}/main"),
        &format!("seed-{token}"),
        "buildserver2024x",
        "Makefile2024release",
        "deploy2024production1/run",
        "Reports2026Team1Of2",
        "MyBuild2024ServerName",
    ] {
        assert!(!is_hidden(name, false), "{name}");
    }
    for key in [
        "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",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
        "aB3dE5gH7jK9/N1pQ2+4tU6==",
    ] {
        assert!(is_hidden(key, false), "{key}");
    }
}

#[tokio::test]
async fn vault_a_removed_value_is_ordinary_text_again() {
    let bench = Bench::new();
    let vault = bench.open();
    let clean = |text: &str| skep_scrub::known().clean(text).into_owned();
    let text = "undone-word, undone-Token-0aB3dE5gH7jK";
    for owner in [HIVE, 7] {
        set(&vault, owner, "UNDONE", "undone-word").await;
    }
    vault.set(new(7, "OWN", "undone-Token-0aB3dE5gH7jK", false), None, 1).await.unwrap();
    assert_eq!(clean(text), "[secret:vault.UNDONE], [secret:vault.OWN]");
    vault.remove(HIVE, "UNDONE", true, None).await.unwrap();
    assert_eq!(clean(text), "[secret:vault.UNDONE], [secret:vault.OWN]", "another has it");
    vault.remove(7, "OWN", false, None).await.unwrap();
    assert_eq!(clean(text), "[secret:vault.UNDONE], undone-Token-0aB3dE5gH7jK");
    vault.remove_owner(7).await.unwrap();
    assert_eq!(clean(text), text);
}

#[tokio::test]
async fn vault_ordinary_words_and_blanks_are_no_values() {
    let vault = Bench::new().open();
    for value in ["approvals", "Approvals", "APPROVALS", "session_key", "        ", " \n\t \n\t \n"]
    {
        let refused = vault.set(new(HIVE, "W", value, true), None, 1).await.unwrap_err();
        assert_eq!(refused.code(), "vault_invalid", "{value}");
        assert_eq!(skep_scrub::known().clean(value), value);
    }
    for value in ["hQzKwmPx", "approvals1", "correcthorsebattery", "two words"] {
        set(&vault, HIVE, "W", value).await;
    }
}

#[tokio::test]
async fn vault_a_key_file_behind_a_link_is_changed_where_it_lies() {
    let bench = Bench::new();
    let vault = bench.open();
    set(&vault, HIVE, "A", "value-behind-a-link").await;
    let elsewhere = tempfile::tempdir().unwrap();
    let real = elsewhere.path().join("real");
    fs::rename(bench.file(), &real).unwrap();
    std::os::unix::fs::symlink(&real, bench.file()).unwrap();
    let before = fs::read_to_string(&real).unwrap();
    vault.rotate(None).await.unwrap();
    assert!(fs::symlink_metadata(bench.file()).unwrap().is_symlink());
    let after = fs::read_to_string(&real).unwrap();
    assert_eq!(after.lines().count(), before.lines().count() + 1);
    drop(vault);
    let value = bench.open().value(HIVE, "A").unwrap().0;
    assert_eq!(value.expose_secret(), "value-behind-a-link");
}

#[tokio::test]
async fn vault_a_foreign_key_file_is_not_rotated() {
    let (ours, other) = (Bench::new(), Bench::new());
    set(&ours.open(), HIVE, "A", "value-of-ours").await;
    set(&other.open(), HIVE, "A", "value-of-other").await;
    let own = fs::read_to_string(ours.file()).unwrap();
    let foreign = fs::read_to_string(other.file()).unwrap();
    fs::write(ours.file(), &foreign).unwrap();
    let vault = ours.open();
    let refused = vault.rotate(None).await.unwrap_err();
    assert_eq!(refused, VaultError::Foreign { path: ours.file() });
    assert_eq!(fs::read_to_string(ours.file()).unwrap(), foreign);
    // With the right file back it goes on.
    fs::write(ours.file(), &own).unwrap();
    assert!(vault.unlock());
    assert_eq!(vault.rotate(None).await.unwrap().1, 1);
    // Nor where it takes the place of the right one while the entries are open.
    let right = fs::read_to_string(ours.file()).unwrap();
    fs::write(ours.file(), &foreign).unwrap();
    let refused = vault.rotate(None).await.unwrap_err();
    assert_eq!(refused, VaultError::Changed { path: ours.file() });
    assert_eq!(fs::read_to_string(ours.file()).unwrap(), foreign);
    // A file that was missing at the start is no foreign one.
    fs::remove_file(ours.file()).unwrap();
    let vault = ours.open();
    let mode = fs::Permissions::from_mode(0o600);
    fs::write(ours.file(), right).unwrap();
    fs::set_permissions(ours.file(), mode).unwrap();
    assert_eq!(vault.rotate(None).await.map(|(_, many)| many), Ok(1));
}

#[tokio::test]
async fn vault_a_name_that_looks_like_a_key_is_refused_and_not_repeated() {
    let vault = Bench::new().open();
    for secret in [true, false] {
        let entry = new(HIVE, "A1b2C3d4E5f6G7h8", "value-of-the-entry", secret);
        let refused = vault.set(entry, None, 1).await.unwrap_err();
        assert_eq!(refused.code(), "vault_invalid");
        assert!(!refused.to_string().contains("A1b2"), "{refused}");
    }
}
