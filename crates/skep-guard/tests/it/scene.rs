//! A home with two agents, and a sandbox around a hostile program in the workspace of one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use skep_guard::network::RoomNetwork;
use skep_guard::process::JobOutput;
use skep_guard::sandbox::{
    CommandLimits, Counting, Level, Sandbox, SandboxRoom, Settings, ShellCommand,
};
use tokio_util::sync::CancellationToken;

pub const MIB: u64 = 1024 * 1024;

/// A home with two agents, a server's folder and a sandbox with small limits.
pub struct Scene {
    pub home: tempfile::TempDir,
    pub sandbox: Sandbox,
}

impl Scene {
    pub fn new() -> Self {
        Self::counted_by(Counting::Kernel)
    }

    pub fn counted_by(counting: Counting) -> Self {
        let home = tempfile::tempdir().unwrap();
        // The walls must hide what is in there, not the permissions of the folder above.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for folder in ["run", "teams/main/work", "teams/other/work"] {
            fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        for file in ["skep.yaml", "run/skep.db", "teams/main/config.yaml", "teams/other/work/notes"]
        {
            fs::write(home.path().join(file), "canary").unwrap();
        }
        let mut settings = Settings::new(Level::Confined, vec![home.path().to_path_buf()]);
        settings.limits = CommandLimits {
            cpu: Duration::from_secs(5),
            memory_bytes: 128 * MIB,
            processes: 40,
            file_bytes: 24 * MIB,
            open_files: 128,
            disk_bytes: 96 * MIB,
            workspace_bytes: 1024 * MIB,
            disk_floor_bytes: 0,
            temporary_bytes: 16 * MIB,
        };
        settings.counting = counting;
        let scene = Self { home, sandbox: Sandbox::new(settings) };
        let program = scene.work().join("hostile");
        fs::copy(hostile(), &program).unwrap();
        scene
    }

    pub fn work(&self) -> PathBuf {
        self.home.path().join("teams/main/work")
    }

    pub fn room(&self) -> SandboxRoom {
        SandboxRoom { workspace: self.work(), read_only: Vec::new(), network: RoomNetwork::None }
    }

    pub async fn run(&self, line: &str) -> JobOutput {
        self.run_for(line, Duration::from_secs(60)).await
    }

    pub async fn run_for(&self, line: &str, timeout: Duration) -> JobOutput {
        let command = ShellCommand { line: line.to_owned(), timeout, output_bytes: 64 * 1024 };
        let output = self.sandbox.run(command, &self.room(), &CancellationToken::new()).await;
        let output = output.unwrap();
        self.nothing_left();
        output
    }

    /// Runs one attack to its end and checks that it got nowhere.
    pub async fn withstands(&self, attack: &str) -> String {
        let output = self.run(&format!("./hostile {attack}")).await;
        let text = text(&output);
        assert!(!text.contains("escaped"), "{attack}:\n{text}");
        assert!(text.ends_with("done\n"), "{attack} did not come to its end: {output:?}");
        text
    }

    /// Every process of the sandbox has the workspace as its folder, and none else has.
    pub fn nothing_left(&self) {
        let work = self.work().canonicalize().unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let left = processes_in(&work);
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still running: {left:?}");
            std::thread::yield_now();
        }
    }
}

pub fn text(output: &JobOutput) -> String {
    String::from_utf8_lossy(&output.stdout.bytes).into_owned()
}

/// Built with the tests, as every example is.
pub fn hostile() -> PathBuf {
    built("examples/hostile", "cargo build -p skep-guard --examples")
}

/// A program in the folder of the profile, and what builds it.
pub fn built(path: &str, how: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join(path);
    assert!(program.is_file(), "missing {}: {how}", program.display());
    program
}

/// By folder or by program: a process of the sandbox that still runs.
pub fn processes_in(work: &Path) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| {
            let of = |file: &str| fs::read_link(entry.path().join(file)).unwrap_or_default();
            of("cwd") == work || of("exe").starts_with(work)
        })
        .map(|entry| {
            let pid = entry.file_name().to_string_lossy().into_owned();
            format!("{pid} {}", fs::read_to_string(entry.path().join("comm")).unwrap_or_default())
        })
        .collect()
}
