//! Calls of drivers that are shell scripts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use flyball_api::PersistentVolume;
use flyball_runtime::Chain;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Drivers, Limits, answer_in};
use crate::disk::{Disk, FlexVolume};

/// Installs a driver `example.com/lvm`: a shell script, in which `$1` is the call. It is renamed into place, so that it never runs
/// while it is written.
fn install(folder: &Path, script: &str) {
    let home = folder.join("example.com~lvm");
    fs::create_dir_all(&home).unwrap();
    let new = home.join(".new");
    fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&new, home.join("lvm")).unwrap();
}

const INIT: &str = r#"[ "$1" = init ] && { echo '{"status": "Success"}'; exit 0; }"#;

struct Scene {
    folder: TempDir,
    drivers: Drivers,
}

impl Scene {
    /// `body` is what the driver does in every call but `init`.
    async fn new(body: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        install(folder.path(), &format!("{INIT}\n{body}"));
        let drivers = Drivers::new(folder.path(), Limits::default());
        assert_eq!(drivers.scan().await, ["example.com/lvm"]);
        assert!(drivers.can_attach("example.com/lvm"));
        Self { folder, drivers }
    }

    async fn attach(&self) -> String {
        match self.drivers.attach(&volume(json!({})), "n1").await {
            Ok(device) => format!("ok {device}"),
            Err(error) => Chain(&error).to_string(),
        }
    }
}

fn volume(options: Value) -> FlexVolume {
    let source = json!({"driver": "example.com/lvm", "fsType": "ext4", "options": options});
    let volume = json!({"metadata": {"name": "pv"}, "spec": {"flexVolume": source}});
    let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
    Disk::of_volume(&volume).unwrap().flex().unwrap().clone()
}

#[tokio::test]
async fn a_driver_gets_the_volume_and_the_node() {
    let log = r#"echo "$@" >> "$(dirname "$0")/log"; echo '{"status": "Success", "device": "/dev/sdx", "attached": true}'"#;
    let Scene { folder, drivers } = Scene::new(log).await;
    let volume = volume(json!({"size": "1 TB", "kubernetes.io/fsType": "xfs"}));
    assert_eq!(drivers.attach(&volume, "n1").await.unwrap(), "/dev/sdx");
    assert_eq!(drivers.is_attached(&volume, "n1").await.unwrap(), Some(true));
    drivers.detach("example.com/lvm/pv", "n1").await.unwrap();
    let options = r#"{"kubernetes.io/fsType":"xfs","kubernetes.io/pvOrVolumeName":"pv","kubernetes.io/readwrite":"rw","size":"1 TB"}"#;
    let calls = fs::read_to_string(folder.path().join("example.com~lvm/log")).unwrap();
    assert_eq!(calls, format!("attach {options} n1\nisattached {options} n1\ndetach pv n1\n"));
}

#[tokio::test]
async fn answers_of_drivers() {
    #[rustfmt::skip]
    let table = [
        // script, result of attach
        (r#"echo '{"status": "Success", "device": "/dev/sdx"}'"#,          "ok /dev/sdx"),
        (r#"echo '{"status": "Success"}'"#,                                "ok "),
        (r#"echo '{"status": "Success"}' >&2"#,                            "ok "),
        (r#"echo warning >&2; echo '{"status": "Success"}'"#,              "ok "),
        (r#"echo '{"Status": "Success", "message": null, "device": null}'"#, "ok "),
        (r#"printf '{"status": "Success", "device": "/%04096d"}' 0"#,      "FlexVolume driver example.com/lvm: attach: the path of the device has more than 4096 bytes"),
        (r#"echo '{"status": "Not supported"}'"#,                          "ok "),
        (r#"echo '{"status": "Not supported"}'; exit 1"#,                  "ok "),
        (r#"echo '{"status": "Failure", "message": "no such disk"}'"#,     "attach command failed, status: Failure, reason: no such disk"),
        (r#"echo '{"status": "Failure", "message": "disk"}'; exit 1"#,     "attach command failed, status: Failure, reason: disk"),
        (r#"echo '{"status": "Success"}'; exit 3"#,                        "FlexVolume driver example.com/lvm: attach: it reports success, but ended with exit status: 3"),
        ("echo hello",                                                     "FlexVolume driver example.com/lvm: attach: the output is not a JSON object with a status (exit status: 0): \"hello\": expected value at line 1 column 1"),
        ("exit 2",                                                         "FlexVolume driver example.com/lvm: attach: the output is not a JSON object with a status (exit status: 2): \"\": EOF while parsing a value at line 1 column 0"),
        ("yes hello",                                                      "FlexVolume driver example.com/lvm: attach: more than 1048576 bytes of output; the program was killed"),
    ];
    for (script, want) in table {
        assert_eq!(Scene::new(script).await.attach().await, want, "{script}");
    }
}

/// The message of a driver becomes that of an event.
#[tokio::test]
async fn a_long_message_is_shortened() {
    let scene = Scene::new(r#"printf '{"status": "Failure", "message": "%0100000d"}' 0"#).await;
    let want = format!("attach command failed, status: Failure, reason: {}…", "0".repeat(1000));
    assert_eq!(scene.attach().await, want);
}

#[tokio::test]
async fn a_call_that_is_not_supported_is_not_tried_again() {
    let log = r#"echo "$1" >> "$(dirname "$0")/log"; echo '{"status": "Not supported"}'"#;
    let Scene { folder, drivers } = Scene::new(log).await;
    for _ in 0..2 {
        drivers.detach("example.com/lvm/pv", "n1").await.unwrap();
        assert_eq!(drivers.is_attached(&volume(json!({})), "n1").await.unwrap(), None);
    }
    let calls = fs::read_to_string(folder.path().join("example.com~lvm/log")).unwrap();
    assert_eq!(calls, "detach\nisattached\n");
}

/// The script's child keeps the output open: only if it is killed, too, the call ends before the child does.
#[tokio::test]
async fn a_driver_that_hangs_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), &format!("{INIT}\nsleep 86400; echo never"));
    let limits = Limits { other: Duration::from_millis(50), ..Limits::default() };
    let drivers = Drivers::new(folder.path(), limits);
    drivers.scan().await;
    let error = drivers.detach("example.com/lvm/pv", "n1").await.unwrap_err();
    let want = "FlexVolume driver example.com/lvm: detach: no answer within 50ms; the program was killed";
    assert_eq!(error.to_string(), want);
}

/// The script writes its own id and that of its child, and hangs. A call that nobody awaits any more ends them both.
#[tokio::test]
async fn a_driver_is_killed_when_its_caller_goes_away() {
    let hang = r#"cd "$(dirname "$0")"; sleep 86400 & echo "$$ $!" > ids.new; mv ids.new ids; wait"#;
    let Scene { folder, drivers } = Scene::new(hang).await;
    let ids = folder.path().join("example.com~lvm/ids");
    let until_started = async {
        while !ids.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let volume = volume(json!({}));
    tokio::select! {
        result = drivers.attach(&volume, "n1") => panic!("{result:?}"),
        () = until_started => {}
    }
    let is_alive = |id: &str| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with('Z'))
    };
    for id in fs::read_to_string(&ids).unwrap().split_whitespace() {
        while is_alive(id) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Programs run in real time: a paused clock neither advances nor ends them.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_waits_for_a_driver() {
    let scene = Scene::new(r#"sleep 0.05; echo '{"status": "Success", "device": "/dev/sdx"}'"#).await;
    let before = tokio::time::Instant::now();
    let attach = tokio::time::timeout(Duration::from_millis(1), scene.attach());
    assert_eq!(attach.await.unwrap(), "ok /dev/sdx");
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn drivers_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("plugins");
    let drivers = Drivers::new(&home, Limits::default());
    let (name, none) = ("example.com/lvm", Vec::<&str>::new());
    assert_eq!(drivers.scan().await, none, "the directory does not exist");
    fs::create_dir_all(home.join("example.com~lvm")).unwrap();
    fs::create_dir_all(home.join(".hidden")).unwrap();
    fs::write(home.join("README"), "no driver").unwrap();
    assert_eq!(drivers.scan().await, none, "there is no program yet");
    assert!(!drivers.can_attach(name));

    install(&home, "echo broken");
    assert_eq!(drivers.scan().await, [name]);
    assert!(!drivers.can_attach(name), "it cannot be initialised");
    assert_eq!(drivers.scan().await, none, "it is tried again, with the same result");

    install(&home, r#"echo '{"status": "Success", "capabilities": {"attach": false}}'"#);
    assert_eq!(drivers.scan().await, [name]);
    assert!(!drivers.can_attach(name), "it does not attach volumes");

    install(&home, r#"echo '{"status": "Success", "capabilities": {"fsGroup": false}}'"#);
    assert_eq!(drivers.scan().await, [name]);
    assert!(drivers.can_attach(name));
    assert_eq!(drivers.scan().await, none);

    fs::remove_dir_all(home.join("example.com~lvm")).unwrap();
    assert_eq!(drivers.scan().await, [name]);
    assert!(!drivers.can_attach(name));
    let error = drivers.detach("example.com/lvm/pv", "n1").await.unwrap_err();
    assert_eq!(error.to_string(), "FlexVolume driver example.com/lvm: detach: it is not installed");
}

#[test]
fn an_error_quotes_little_of_what_a_driver_prints() {
    let long = "x".repeat(1 << 20);
    #[rustfmt::skip]
    let table = [
        ("no JSON",           long.clone(),                                                               1000),
        ("of another type",   format!(r#"{{"status": "Success", "attached": "{long}"}}"#),                1000),
        ("its own message",   format!(r#"{{"status": "Failure", "message": "{long}"}}"#),                 1100),
        ("its own status",    format!(r#"{{"status": "{long}"}}"#),                                       1100),
    ];
    for (case, output, longest) in table {
        let error = answer_in(output.as_bytes()).unwrap_err();
        let text = Chain(&error).to_string();
        assert!(text.chars().count() < longest, "{case}: {} characters", text.chars().count());
    }
}
