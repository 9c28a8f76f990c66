//! The live page in a real browser: an unauthorized visitor sees nothing, every view shows what happens, a planted fault is found
//! in two clicks, buttons work, and what comes from the cluster stays text. Without a browser the test says so.
//!
//! With FLYBALL_SCREENSHOTS=docs/images the pictures of the documentation are written.

#[path = "common/browser.rs"]
mod browser;
mod common;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_api::{Key, ResourceType};
use flyball_client::Client;
use serde_json::{Value, json};

use browser::Browser;
use common::{Up, wait};

const DEPLOYMENTS: ResourceType = ResourceType::new("apps", "v1", "deployments", "Deployment", true);
const EVENTS: ResourceType = ResourceType::new("", "v1", "events", "Event", true);
const NAMESPACES: ResourceType = ResourceType::new("", "v1", "namespaces", "Namespace", false);
const NODES: ResourceType = ResourceType::new("", "v1", "nodes", "Node", false);
const PODS: ResourceType = ResourceType::new("", "v1", "pods", "Pod", true);
const QUOTAS: ResourceType = ResourceType::new("", "v1", "resourcequotas", "ResourceQuota", true);
const SECRETS: ResourceType = ResourceType::new("", "v1", "secrets", "Secret", true);
const STATEFUL_SETS: ResourceType = ResourceType::new("apps", "v1", "statefulsets", "StatefulSet", true);

/// What must not be seen anywhere.
const HIDDEN: &str = "hunter2";
/// What must be seen as text.
const HOSTILE: &str = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>";

fn workload(kind: &str, name: &str, replicas: u32, annotations: Value) -> Value {
    let container = json!({
        "name": "main", "image": format!("registry.example/{name}:2.1"), "env": [{"name": "PASSWORD", "value": HIDDEN}],
    });
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": {"containers": [container]}},
        },
    })
}

fn event(about: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "hostile"}, "type": "Warning", "reason": "Hostile",
        "message": message, "involvedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": about, "namespace": "shop"},
        "source": {"component": "stranger"}, "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z",
    })
}

/// A shop in which an image cannot be pulled, a quota is too small, and all else is well.
async fn plant(client: &Client) -> anyhow::Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": {"pods": "12"}},
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"password": HIDDEN},
    });
    client.create_dynamic(&NAMESPACES, None, &namespace).await?;
    let deployment = |name, replicas, annotations| workload("Deployment", name, replicas, annotations);
    let objects = [
        (&QUOTAS, quota),
        (&SECRETS, secret),
        (&DEPLOYMENTS, deployment("web", 4, json!({}))),
        (&DEPLOYMENTS, deployment("cart", 3, json!({"flyball.dev/fail": "image"}))),
        (&STATEFUL_SETS, workload("StatefulSet", "db", 3, json!({}))),
        (&EVENTS, event("cart", HOSTILE)),
    ];
    for (resource, object) in objects {
        client.create_dynamic(resource, Some("shop"), &object).await.with_context(|| resource.to_string())?;
    }
    // All ten pods are there, so what is asked for next is what the quota refuses.
    let all_created = |quota: &Value| quota["status"]["used"]["pods"] == "10";
    wait(client, &QUOTAS, &Key::new("shop", "team"), all_created).await.map(drop)
}

/// Whatever the page shows, in this view or hidden.
async fn everything(browser: &Browser) -> anyhow::Result<String> {
    let text = browser.script("return document.documentElement.outerHTML").await?;
    Ok(text.as_str().unwrap_or_default().to_owned())
}

/// Since when the page says that the cart is broken.
async fn cart_since(browser: &Browser) -> anyhow::Result<Value> {
    let script = "return [...document.querySelectorAll('.problems li')].find((row) => row.innerText.includes('shop/cart')) \
                  ?.querySelector('time').dateTime";
    browser.until("the cart is broken", script).await
}

struct Pictures(Option<PathBuf>);

impl Pictures {
    fn new() -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        Self(std::env::var_os("FLYBALL_SCREENSHOTS").map(|folder| root.join(folder)))
    }

    async fn take(&self, browser: &Browser, name: &str) -> anyhow::Result<()> {
        match &self.0 {
            Some(folder) => browser.screenshot(&folder.join(format!("ui-{name}.png"))).await,
            None => Ok(()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_a_fault_in_two_clicks_and_a_stranger_nothing() -> anyhow::Result<()> {
    if !browser::is_installed() {
        return Ok(());
    }
    let up = Up::start(&["--nodes", "3", "--pods-move-after", "5"])?;
    let client = up.client().await?;
    plant(&client).await?;
    let (browser, pictures) = (Browser::start().await?, Pictures::new());
    let page = format!("http://127.0.0.1:{}/ui/", up.port()?);

    // A stranger.
    browser.open(&page).await?;
    let said = everything(&browser).await?;
    ensure!(said.contains("Not logged in") && !said.contains("cart") && !said.contains("<script"), "{said}");

    // With the link, which works once.
    let link = up.page_link().context("no link was printed")?;
    browser.open(&link).await?;
    browser.says("#link", "live").await?;
    let at = browser.script("return location.href").await?;
    ensure!(at == page.as_str(), "the link stays in the address: {at}");
    let cookies = browser.script("return document.cookie").await?;
    ensure!(cookies == "", "scripts can read the cookie: {cookies}");

    problems(&browser, &pictures, &client).await?;
    let since = cart_since(&browser).await?;
    object(&browser, &pictures).await?;
    nodes(&browser, &pictures).await?;
    controllers(&browser, &pictures).await?;
    activity(&browser, &pictures).await?;
    keyboard(&browser).await?;
    buttons(&browser, &client).await?;
    narrow_and_dark(&browser, &pictures, &page).await?;
    browser.script("location.hash = '#/'").await?;
    let later = cart_since(&browser).await?;
    ensure!(since == later, "the cart is broken since {since}, and then since {later}");
    // Last, since deadlines pass.
    clock(&browser).await?;

    let complaints = browser.log().await?;
    let unexpected: Vec<&str> = complaints
        .lines()
        .filter(|line| {
            !line.contains("401") && !line.contains("favicon") && !line.contains("404 (Not Found)")
        })
        .collect();
    ensure!(unexpected.is_empty(), "the browser complains: {unexpected:#?}");

    // A page that is not live says so.
    up.stop()?;
    browser.says("#link", "not live").await?;
    browser.says("#link", "cannot be reached").await
}

async fn problems(browser: &Browser, pictures: &Pictures, client: &Client) -> anyhow::Result<()> {
    // Too many for the quota, while the page is open.
    let more = json!({"spec": {"replicas": 7}});
    let key = Key::new("shop", "web");
    client.patch_dynamic(&DEPLOYMENTS, &key, None, &flyball_client::Patch::Merge(more)).await?;
    browser.says(".problems li", "quota team allows 12 pods").await?;
    browser.says(".problems li", "image registry.example/cart:2.1 cannot be pulled").await?;
    browser.says(".problems .since", "since").await?;
    browser.says("h1", "2 problems").await?;
    pictures.take(browser, "problems").await
}

/// The page is open: the first click shows the object, and there is no need for a second one.
async fn object(browser: &Browser, pictures: &Pictures) -> anyhow::Result<()> {
    browser.click(".problems a", "shop/cart").await?;
    browser.says(".finding.first", "image registry.example/cart:2.1 cannot be pulled").await?;
    browser.says(".finding.first", "Blocked").await?;
    browser.says(".tree", "ReplicaSet cart-").await?;
    browser.says(".history", "replicaset-controller").await?;
    // What a stranger wrote is a text.
    browser.says(".history", HOSTILE).await?;
    ensure!(browser.script("return document.querySelectorAll('main img, main script').length").await? == 0);
    ensure!(browser.script("return document.title").await? != "taken");
    browser.script("scrollTo(0, 0)").await?;
    pictures.take(browser, "object").await?;
    // The second click leads to the pod.
    browser.click(".tree a", "Pod cart-").await?;
    browser.says("h1", "shop/cart-").await?;
    browser.says(".finding.first", "cannot be pulled").await?;
    let said = everything(browser).await?;
    ensure!(!said.contains(HIDDEN), "the value of an environment variable is shown");
    // What is gone has left a trace.
    browser.script("location.hash = '#/object?kind=Pod&namespace=shop&name=never-there'").await?;
    browser.says("main", "Pod shop/never-there does not exist").await?;
    // A Secret is not shown at all.
    browser.script("location.hash = '#/object?kind=Secret&namespace=shop&name=password'").await?;
    browser.says("main", "Secrets are not shown here").await
}

async fn nodes(browser: &Browser, pictures: &Pictures) -> anyhow::Result<()> {
    browser.click("nav a", "Nodes").await?;
    browser
        .until("three nodes", "return document.querySelectorAll('.row.node:not([hidden])').length === 3")
        .await?;
    browser.says(".tools", "3 of 3 nodes ready").await?;
    browser.says(".row.node", "broken").await?;
    pictures.take(browser, "nodes").await?;
    browser.click(".row.node a", "node-1").await?;
    browser.says(".row.pod", "shop/").await?;
    browser.says(".verdict.fine", "Nothing keeps it").await
}

async fn controllers(browser: &Browser, pictures: &Pictures) -> anyhow::Result<()> {
    browser.click("nav a", "Controllers").await?;
    browser.says(".controllers", "replicaset").await?;
    browser.says(".controllers", "garbage-collector").await?;
    // The quota makes it try again.
    let retrying = "const row = [...document.querySelectorAll('.controllers tbody tr')].find((row) => row.innerText.startsWith('replicaset\\t') \
                    || row.querySelector('button')?.innerText === 'replicaset'); return Number(row?.children[5]?.innerText) >= 1";
    browser.until("the replicaset controller retries", retrying).await?;
    browser.click(".controllers button", "replicaset").await?;
    browser.says(".detail:not([hidden])", "shop/web-").await?;
    browser.says(".detail:not([hidden])", "times in a row").await?;
    pictures.take(browser, "controllers").await
}

async fn activity(browser: &Browser, pictures: &Pictures) -> anyhow::Result<()> {
    browser.click("nav a", "Activity").await?;
    browser.says(".row.line", "creates").await?;
    browser.says(".row.line.change", "→").await?;
    pictures.take(browser, "activity").await?;
    browser.click("#activity-filter", "").await?;
    browser.keys("statefulset db-2").await?;
    let all_match = "const rows = [...document.querySelectorAll('.row.line:not([hidden])')]; \
                     return rows.length > 0 && rows.every((row) => row.innerText.includes('db-2'))";
    browser.until("only lines that match", all_match).await?;
    browser.click("button", "Pause").await?;
    browser.says(".tools", "paused").await
}

/// Without a mouse: the search, the list, and the way back.
async fn keyboard(browser: &Browser) -> anyhow::Result<()> {
    const DOWN: &str = "\u{e015}";
    const ENTER: &str = "\u{e007}";
    const TAB: &str = "\u{e004}";
    browser.script("location.hash = '#/nodes'; document.activeElement.blur()").await?;
    browser.says("h1", "Nodes").await?;
    browser
        .until("the rows", "return document.querySelectorAll('.row.node:not([hidden])').length === 3")
        .await?;
    browser.keys("/").await?;
    browser.keys("statefulset/shop/db").await?;
    browser.until("a hit", "return document.querySelector('#found [aria-selected=true]')?.innerText.includes('StatefulSet shop/db')").await?;
    browser.keys(ENTER).await?;
    browser.says("h1", "shop/db").await?;
    let focused = browser.until("the heading has the focus", "return document.activeElement.tagName").await?;
    ensure!(focused == "H1", "{focused}");
    // Any kind, as kubectl names it.
    browser.keys("/").await?;
    browser.keys("deploy/web shop").await?;
    browser.keys(ENTER).await?;
    browser.says("h1", "shop/web").await?;
    browser.says(".finding.first", "quota team").await?;
    browser.script("location.hash = '#/nodes'").await?;
    browser
        .until("the rows", "return document.querySelectorAll('.row.node:not([hidden])').length === 3")
        .await?;
    browser.keys(TAB).await?;
    browser.keys(TAB).await?;
    browser.keys(DOWN).await?;
    let at = browser.script("return document.activeElement.closest('.row')?.dataset.at").await?;
    ensure!(!at.is_null(), "the arrow keys do not move the focus into the list");
    browser.keys(ENTER).await?;
    browser.says("h1", "Node node-").await
}

async fn buttons(browser: &Browser, client: &Client) -> anyhow::Result<()> {
    browser.script("location.hash = '#/object?group=apps&kind=Deployment&namespace=shop&name=web'").await?;
    browser.until("the buttons", "return document.querySelector('.scale button')").await?;
    browser.script("document.querySelector('#replicas').value = 2").await?;
    browser.click(".scale button", "Scale").await?;
    browser.says("#said", "web is to have 2 replicas").await?;
    browser.says(".headline", "2 of 2 replicas available").await?;
    // A pod fails.
    browser.script("location.hash = '#/object?group=&kind=Pod&namespace=shop&name=db-0'").await?;
    browser.click(".buttons button", "Make it fail").await?;
    browser.says("#said", "db-0 fail from now on").await?;
    browser.says(".findings", "container main").await?;
    let pod: Value = client.get_dynamic(&PODS, &Key::new("shop", "db-0")).await?;
    ensure!(pod["metadata"]["annotations"]["flyball.dev/fail"] == "true", "{pod}");
    // A node is switched off; the page says what that means, and that it is over again.
    browser.script("location.hash = '#/object?group=&kind=Node&name=node-2'").await?;
    browser.click(".buttons button", "Switch off").await?;
    browser
        .until("it is off", "return document.querySelector('.buttons button')?.innerText === 'Switch on'")
        .await?;
    browser.click("nav a", "Problems").await?;
    browser.says(".problems li", "node-2").await?;
    browser.click(".problems a", "node-2").await?;
    browser.says(".finding.first", "kubelet").await?;
    browser.click(".buttons button", "Switch on").await?;
    browser.until("it is ready again", "return document.querySelector('.headline .mark.fine') && document.querySelector('.verdict.fine')").await?;
    let node: Value = client.get_dynamic(&NODES, &Key::cluster("node-2")).await?;
    ensure!(node["metadata"]["annotations"].get("flyball.dev/stopped").is_none(), "{node}");
    Ok(())
}

/// The clock is moved, and the page shows the cluster's time, not that of the browser.
async fn clock(browser: &Browser) -> anyhow::Result<()> {
    const AHEAD: &str =
        "return (Date.parse(document.querySelector('#time time').dateTime) - Date.now()) / 1000";
    browser.until("the clock is there", "return document.querySelector('#time time')?.dateTime").await?;
    let before = browser.script(AHEAD).await?.as_f64().unwrap_or(f64::NAN);
    ensure!(before.abs() < 60.0, "{before} s ahead before it is moved");
    browser.click("#time button", "+1 h").await?;
    browser.says("#said", "the clock shows").await?;
    browser
        .until(
            "an hour later",
            "return (Date.parse(document.querySelector('#time time').dateTime) - Date.now()) / 1000 > 3590",
        )
        .await?;
    browser.script("const s = document.querySelector('#time select'); s.value = '60'; s.dispatchEvent(new Event('change'))").await?;
    browser.says("#said", "60 times as fast").await?;
    browser
        .until(
            "another minute",
            "return (Date.parse(document.querySelector('#time time').dateTime) - Date.now()) / 1000 > 3660",
        )
        .await?;
    browser.script("const s = document.querySelector('#time select'); s.value = '1'; s.dispatchEvent(new Event('change'))").await?;
    browser.says("#said", "as fast as outside").await
}

async fn narrow_and_dark(browser: &Browser, pictures: &Pictures, page: &str) -> anyhow::Result<()> {
    browser.scheme("dark").await?;
    browser.open(page).await?;
    browser.says(".problems li", "shop/cart").await?;
    browser.says(".problems li .cause", "cannot be pulled").await?;
    let ground = browser.script("return getComputedStyle(document.body).backgroundColor").await?;
    ensure!(ground == "rgb(19, 22, 27)", "it is not dark: {ground}");
    pictures.take(browser, "dark").await?;
    browser.size(390, 800).await?;
    let fits = "return document.documentElement.scrollWidth <= innerWidth";
    for view in ["#/", "#/nodes", "#/controllers", "#/activity"] {
        browser.script(&format!("location.hash = '{view}'")).await?;
        tokio::task::yield_now().await;
        ensure!(browser.script(fits).await? == true, "{view} does not fit on a small screen");
    }
    browser.size(1280, 800).await?;
    browser.scheme("light").await
}

/// Requests that no browser of the owner would send.
#[tokio::test(flavor = "multi_thread")]
async fn other_sites_and_foreign_names_get_neither_data_nor_buttons() -> anyhow::Result<()> {
    let up = Up::start(&["--nodes", "1"])?;
    let (port, link) = (up.port()?, up.page_link().context("no link")?);
    let own = format!("127.0.0.1:{port}");
    let (status, head) = raw(&port, &format!("GET {} HTTP/1.1\r\nHost: {own}\r\n", path_of(&link))).await?;
    ensure!(status == 303, "{status} {head}");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).context("no cookie")?;
    ensure!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.contains("Path=/ui"),
        "{cookie}"
    );
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap_or_default());
    let act = r#"{"do":"stop-node","node":"node-1"}"#;
    let press = |headers: &str| {
        format!(
            "POST /ui/act HTTP/1.1\r\nHost: {own}\r\n{cookie}Content-Length: {}\r\n{headers}\r\n{act}",
            act.len()
        )
    };
    let button = format!("Origin: http://{own}\r\nContent-Type: application/json\r\nX-Flyball-Button: 1\r\n");
    #[rustfmt::skip]
    let table = [
        ("the page",                      format!("GET /ui/ HTTP/1.1\r\nHost: {own}\r\n{cookie}"),                                   200),
        ("under another own name",        format!("GET /ui/ HTTP/1.1\r\nHost: localhost:{port}\r\n{cookie}"),                        200),
        ("without the cookie",            format!("GET /ui/ HTTP/1.1\r\nHost: {own}\r\n"),                                           401),
        ("a wrong cookie",                format!("GET /ui/ HTTP/1.1\r\nHost: {own}\r\nCookie: flyball-ui-{port}={}\r\n", "0".repeat(64)), 401),
        ("the link a second time",        format!("GET {} HTTP/1.1\r\nHost: {own}\r\n", path_of(&link)),                              403),
        ("DNS rebinding",                 format!("GET /ui/ HTTP/1.1\r\nHost: evil.example:{port}\r\n{cookie}"),                     421),
        ("through a forwarded port",      format!("GET /ui/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n{cookie}"),                             200),
        ("a name that begins as ours",    format!("GET /ui/ HTTP/1.1\r\nHost: localhost.evil.example\r\n{cookie}"),               421),
        ("a user in front of the name",   format!("GET /ui/ HTTP/1.1\r\nHost: localhost@evil.example\r\n{cookie}"),               421),
        ("data for another site",         format!("GET /ui/why?kind=Node&name=node-1 HTTP/1.1\r\nHost: {own}\r\n{cookie}Sec-Fetch-Site: cross-site\r\n"), 403),
        ("a Secret",                      format!("GET /ui/why?kind=secret&namespace=a&name=b HTTP/1.1\r\nHost: {own}\r\n{cookie}"), 404),
        ("an unknown kind",               format!("GET /ui/why?kind=Gizmo&name=b HTTP/1.1\r\nHost: {own}\r\n{cookie}"),              404),
        ("no object",                     format!("GET /ui/why HTTP/1.1\r\nHost: {own}\r\n{cookie}"),                                400),
        ("the API without TLS",           format!("GET /api/v1/nodes HTTP/1.1\r\nHost: {own}\r\n{cookie}"),                          400),
        ("out of the folder",             format!("GET /ui/../api/v1/nodes HTTP/1.1\r\nHost: {own}\r\n{cookie}"),                    404),
        ("a button without the header",   press(&format!("Origin: http://{own}\r\nContent-Type: application/json\r\n")),             403),
        ("a button from another site",    press(&button.replace(&own, "evil.example")),                                             403),
        ("a button from another port",    press(&button.replace(&own, "127.0.0.1:1")),                                              403),
        ("a form of another site",        press(&format!("Origin: http://{own}\r\nContent-Type: text/plain\r\nX-Flyball-Button: 1\r\n")), 403),
        ("a button without the cookie",   press(&button).replace(&cookie, ""),                                                      401),
        ("a button",                      press(&button),                                                                           200),
    ];
    for (case, request, want) in table {
        let request = if request.contains("\r\n\r\n") { request } else { format!("{request}\r\n") };
        let (status, said) = raw(&port, request.trim_end_matches("\r\n").trim_end()).await.context(case)?;
        ensure!(status == want, "{case}: {status} instead of {want}: {said}");
        ensure!(want == 200 || !said.contains("node-1") || said.contains("link"), "{case}: {said}");
    }
    up.stop()
}

fn path_of(link: &str) -> &str {
    link.find("/ui/").map_or("", |at| &link[at..])
}

/// Sends a request as it is, and reads the response; its status, and all of it.
async fn raw(port: &str, request: &str) -> anyhow::Result<(u16, String)> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
    let mut stream = tokio::net::TcpStream::connect(format!("127.0.0.1:{port}")).await?;
    stream.write_all(format!("{}\r\nConnection: close\r\n\r\n{body}", head.trim_end()).as_bytes()).await?;
    let mut said = Vec::new();
    tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut said)).await??;
    let said = String::from_utf8_lossy(&said).into_owned();
    let status = said.split_whitespace().nth(1).context("no status")?.parse()?;
    Ok((status, said))
}
