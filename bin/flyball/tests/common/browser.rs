//! A real browser: Chromium without a window, driven by chromedriver over the WebDriver protocol.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

/// How long something may take to appear on the page.
const APPEARS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const STARTED: &str = "was started successfully on port ";
/// The key under which WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

/// Whether there is a browser; if not, the test says so and ends.
pub(crate) fn is_installed() -> bool {
    let runs = |program: &str| {
        let output = Command::new(program).arg("--version").stderr(Stdio::null()).output();
        output.is_ok_and(|output| output.status.success())
    };
    let both = runs("chromium") && runs("chromedriver");
    if !both {
        eprintln!(
            "SKIPPED: this test needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)"
        );
    }
    both
}

impl Browser {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let profile = tempfile::tempdir()?;
        // A group of its own, so that the browser ends with the driver.
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start chromedriver")?;
        let mut lines = BufReader::new(driver.stdout.take().context("no stdout")?).lines();
        let port = loop {
            let line = lines.next().context("chromedriver said no port")??;
            if let Some((_, port)) = line.split_once(STARTED) {
                break port.trim_end_matches('.').parse()?;
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let folder = browser._profile.path().display().to_string();
        let arguments = json!([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            format!("--user-data-dir={folder}"),
        ]);
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "acceptInsecureCerts": true, "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = browser.send("POST", "/session", &wanted).await?;
        browser.session = session["sessionId"].as_str().context("no session")?.to_owned();
        browser.size(1280, 800).await?;
        Ok(browser)
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("content-type", "application/json")
            .body(Full::new(bytes::Bytes::from(body)))?;
        let response = sender.send_request(request).await?;
        let (is_ok, bytes) =
            (response.status().is_success(), response.into_body().collect().await?.to_bytes());
        connection.abort();
        let mut said: Value = serde_json::from_slice(&bytes)?;
        ensure!(is_ok, "{method} {path}: {}", said["value"]["message"].as_str().unwrap_or_default());
        Ok(said["value"].take())
    }

    async fn ask(&self, what: &str, body: Value) -> anyhow::Result<Value> {
        self.send("POST", &format!("/session/{}/{what}", self.session), &body).await
    }

    async fn devtools(&self, command: &str, parameters: Value) -> anyhow::Result<Value> {
        self.ask("goog/cdp/execute", json!({"cmd": command, "params": parameters})).await
    }

    pub(crate) async fn size(&self, width: u32, height: u32) -> anyhow::Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await.map(drop)
    }

    /// `light` or `dark`, as the system's setting.
    pub(crate) async fn scheme(&self, scheme: &str) -> anyhow::Result<()> {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", features).await.map(drop)
    }

    pub(crate) async fn open(&self, url: &str) -> anyhow::Result<()> {
        self.ask("url", json!({ "url": url })).await.map(drop)
    }

    /// Runs a script in the page, with its result.
    pub(crate) async fn script(&self, script: &str) -> anyhow::Result<Value> {
        self.ask("execute/sync", json!({"script": script, "args": []})).await
    }

    /// The visible text of the first element that matches a selector.
    pub(crate) async fn text(&self, selector: &str) -> anyhow::Result<String> {
        let text = self
            .script(&format!("return document.querySelector({})?.innerText ?? ''", json!(selector)))
            .await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until a script returns something true, and returns that.
    pub(crate) async fn until(&self, what: &str, script: &str) -> anyhow::Result<Value> {
        let begun = Instant::now();
        loop {
            let found = self.script(script).await?;
            if !matches!(found, Value::Null | Value::Bool(false)) && found != json!("") && found != json!(0) {
                return Ok(found);
            }
            if begun.elapsed() > APPEARS_WITHIN {
                let page = self.text("body").await?;
                bail!("{what}: not within {APPEARS_WITHIN:?}. The page says:\n{page}\n{}", self.log().await?);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Waits until an element has a text.
    pub(crate) async fn says(&self, selector: &str, text: &str) -> anyhow::Result<()> {
        let script = format!(
            "return [...document.querySelectorAll({})].some((found) => found.innerText.includes({}))",
            json!(selector),
            json!(text)
        );
        self.until(&format!("{selector} says {text:?}"), &script).await.map(drop)
    }

    /// Clicks, as a mouse does, on the first element that matches a selector and contains a text.
    pub(crate) async fn click(&self, selector: &str, text: &str) -> anyhow::Result<()> {
        let script = format!(
            "return [...document.querySelectorAll({})].find((found) => found.checkVisibility() && found.innerText.includes({}))",
            json!(selector),
            json!(text)
        );
        let element = self.until(&format!("{selector} with {text:?}"), &script).await?;
        let id =
            element[ELEMENT].as_str().with_context(|| format!("{selector} with {text:?} is no element"))?;
        self.ask(&format!("element/{id}/click"), json!({})).await.map(drop)
    }

    /// Types on the keyboard, into whatever has the focus.
    pub(crate) async fn keys(&self, keys: &str) -> anyhow::Result<()> {
        let pressed = keys.chars().flat_map(|key| {
            [
                json!({"type": "keyDown", "value": key.to_string()}),
                json!({"type": "keyUp", "value": key.to_string()}),
            ]
        });
        let actions =
            json!({"actions": [{"type": "key", "id": "keyboard", "actions": pressed.collect::<Vec<_>>()}]});
        self.ask("actions", actions).await.map(drop)
    }

    pub(crate) async fn screenshot(&self, file: &Path) -> anyhow::Result<()> {
        let shot = self.send("GET", &format!("/session/{}/screenshot", self.session), &Value::Null).await?;
        use base64::Engine as _;
        let bytes = base64::engine::general_purpose::STANDARD.decode(shot.as_str().context("no picture")?)?;
        std::fs::create_dir_all(file.parent().context("no folder")?)?;
        std::fs::write(file, bytes).with_context(|| file.display().to_string())
    }

    /// Errors of the page: of its scripts, and what its policy has refused.
    pub(crate) async fn log(&self) -> anyhow::Result<String> {
        let entries = self.ask("se/log", json!({"type": "browser"})).await?;
        let texts = entries.as_array().into_iter().flatten().filter_map(|entry| entry["message"].as_str());
        Ok(texts.collect::<Vec<_>>().join("\n"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = i32::try_from(self.driver.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.driver.wait();
    }
}
