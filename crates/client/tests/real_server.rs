//! The whole client against etcd and kube-apiserver, found through `KUBEBUILDER_ASSETS`. Without them the test says
//! that it was skipped.
#![allow(clippy::unwrap_used)] // helpers of tests, too, may fail the test

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flyball_api::{Key, PartialObject, ResourceType};
use flyball_client::{
    Client, ClientOptions, ConnectOptions, Connection, DeleteOptions, EventKind, Identities, ListParams,
    Patch, WatchParams, connect,
};
use futures::StreamExt;
use serde_json::json;

static PODS: ResourceType = ResourceType::new("", "v1", "pods", "Pod", true);
static CONFIG_MAPS: ResourceType = ResourceType::new("", "v1", "configmaps", "ConfigMap", true);
static SERVICE_ACCOUNTS: ResourceType =
    ResourceType::new("", "v1", "serviceaccounts", "ServiceAccount", true);

/// etcd and kube-apiserver in a directory of their own; stopped when dropped.
struct ControlPlane {
    dir: tempfile::TempDir,
    port: u16,
    processes: Vec<Child>,
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).unwrap().port()
}

impl ControlPlane {
    async fn start(assets: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut plane = Self { port: free_port(), dir, processes: vec![] };
        plane.write_pki();
        std::fs::write(plane.path("tokens.csv"), "admin-token,admin,1,\"system:masters\"\n").unwrap();
        let (client, peer) = (free_port(), free_port());
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        plane.spawn(
            &assets.join("etcd"),
            &[
                ("data-dir", plane.path("etcd").display().to_string()),
                ("listen-client-urls", client.clone()),
                ("advertise-client-urls", client.clone()),
                ("listen-peer-urls", peer.clone()),
                ("initial-advertise-peer-urls", peer.clone()),
                ("initial-cluster", format!("default={peer}")),
            ],
        );
        let pki = |name: &str| plane.path(name).display().to_string();
        let flags = [
            ("etcd-servers", client),
            ("secure-port", plane.port.to_string()),
            ("bind-address", "127.0.0.1".to_owned()),
            ("advertise-address", "127.0.0.1".to_owned()),
            ("tls-cert-file", pki("server.crt")),
            ("tls-private-key-file", pki("server.key")),
            ("client-ca-file", pki("ca.crt")),
            ("token-auth-file", pki("tokens.csv")),
            ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
            ("service-account-key-file", pki("sa.pub")),
            ("service-account-signing-key-file", pki("sa.key")),
            ("service-cluster-ip-range", "10.96.0.0/16".to_owned()),
            ("authorization-mode", "RBAC".to_owned()),
            ("disable-admission-plugins", "ServiceAccount".to_owned()),
            ("endpoint-reconciler-type", "none".to_owned()),
            ("cert-dir", pki("apiserver")),
        ];
        plane.spawn(&assets.join("kube-apiserver"), &flags);
        plane
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A CA, the server's certificate and the controller manager's, as kubeadm makes them; keys for tokens.
    fn write_pki(&self) {
        let write = |name: &str, text: String| std::fs::write(self.path(name), text).unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "kubernetes-ca");
        let ca = rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap();
        write("ca.crt", ca.pem());
        for (name, common_name, usage) in [
            ("server", "kube-apiserver", rcgen::ExtendedKeyUsagePurpose::ServerAuth),
            ("kcm", "system:kube-controller-manager", rcgen::ExtendedKeyUsagePurpose::ClientAuth),
        ] {
            let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
            params.extended_key_usages = vec![usage];
            let key = rcgen::KeyPair::generate().unwrap();
            write(&format!("{name}.crt"), params.signed_by(&key, &ca).unwrap().pem());
            write(&format!("{name}.key"), key.serialize_pem());
        }
        let tokens = rcgen::KeyPair::generate().unwrap();
        write("sa.key", tokens.serialize_pem());
        write("sa.pub", tokens.public_key_pem());
    }

    fn spawn(&mut self, binary: &Path, flags: &[(&str, String)]) {
        let log =
            std::fs::File::create(self.path("log").with_extension(binary.file_name().unwrap())).unwrap();
        let child = Command::new(binary)
            .args(flags.iter().map(|(name, value)| format!("--{name}={value}")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", binary.display()));
        self.processes.push(child);
    }

    /// With a token in a file.
    async fn connect_as_admin(&self) -> Connection {
        std::fs::write(self.path("token"), "admin-token\n").unwrap();
        self.connect("admin", "tokenFile: token").await
    }

    /// With a certificate, as kubeadm's `controller-manager.conf`.
    async fn connect_as_manager(&self) -> Connection {
        let data = |name: &str| {
            use base64::Engine;
            base64::engine::general_purpose::STANDARD.encode(std::fs::read(self.path(name)).unwrap())
        };
        let user =
            format!("client-certificate-data: {}, client-key-data: {}", data("kcm.crt"), data("kcm.key"));
        self.connect("manager", &user).await
    }

    async fn connect(&self, name: &str, user: &str) -> Connection {
        let file = self.path(name).with_extension("conf");
        let text = format!(
            "current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{}', certificate-authority: ca.crt}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n",
            self.port
        );
        std::fs::write(&file, text).unwrap();
        connect(&ConnectOptions { kubeconfig: Some(file), ..ConnectOptions::default() }).await.unwrap()
    }

    /// RBAC's bootstrap roles are written after readiness.
    async fn ready(&mut self, client: &Client) {
        let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:controller:replicaset-controller";
        let attempts = async {
            while client.get_raw("/readyz").await.is_err()
                || client.get_raw(role).await.is_err()
                || client.get_raw("/api/v1/namespaces/kube-system").await.is_err()
                || client.get_raw("/api/v1/namespaces/default").await.is_err()
            {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(120), attempts).await.is_err() {
            let log = std::fs::read_to_string(self.path("log.kube-apiserver")).unwrap_or_default();
            panic!(
                "kube-apiserver is not ready:\n{}",
                log.lines().rev().take(20).collect::<Vec<_>>().join("\n")
            );
        }
    }
}

fn options(suffix: &str) -> ClientOptions {
    let user_agent = flyball_client::user_agent("v1.36.4", "0123456", suffix);
    ClientOptions { qps: 0.0, user_agent, ..ClientOptions::default() }
}

#[tokio::test]
async fn the_client_works_with_a_real_api_server() {
    let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from) else {
        eprintln!("SKIPPED: KUBEBUILDER_ASSETS is not set, so there is no kube-apiserver to talk to");
        return;
    };
    let mut plane = ControlPlane::start(&assets).await;
    let connection = plane.connect_as_admin().await;
    let client = Client::with_watches(connection.transport(), connection.watch_transport(), options("test"));
    plane.ready(&client).await;

    objects(&client).await;
    watches(&client).await;
    pages(&client).await;
    discovery(&client).await;
    identities(&plane.connect_as_manager().await, &client).await;
    many_watches(&client).await;
}

async fn objects(client: &Client) {
    let key = Key::new("default", "web");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "finalizers": ["example.com/hold"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let created = client.create_dynamic(&PODS, "default", &pod).await.unwrap();
    // The owner of the fields is the user agent's first word: the same that upstream's writes have.
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "kube-controller-manager");
    let meta: PartialObject = serde_json::from_value(created).unwrap();
    assert!(client.create_dynamic(&PODS, "default", &pod).await.unwrap_err().is_already_exists());
    assert!(client.get_dynamic(&PODS, &Key::new("default", "none")).await.unwrap_err().is_not_found());
    let invalid = json!({"metadata": {"name": "bad"}, "spec": {"containers": []}});
    assert!(client.create_dynamic(&PODS, "default", &invalid).await.unwrap_err().is_invalid());

    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let patched: PartialObject = client.patch_as(&PODS, &key, None, &patch).await.unwrap();
    assert!(patched.metadata.resource_version > meta.metadata.resource_version);
    let mut stale = client.get_dynamic(&PODS, &key).await.unwrap();
    stale["metadata"]["resourceVersion"] = meta.metadata.resource_version.to_string().into();
    assert!(client.update_dynamic(&PODS, &key, None, &stale).await.unwrap_err().is_conflict());

    let other =
        DeleteOptions { uid: Some("11111111-2222-3333-4444-555555555555".into()), ..Default::default() };
    assert!(client.delete_dynamic(&PODS, &key, &other).await.unwrap_err().is_conflict());
    let mine = DeleteOptions { grace_period: Some(0), ..DeleteOptions::uid(&meta.metadata.uid) };
    let going = client.delete_dynamic(&PODS, &key, &mine).await.unwrap();
    assert!(going.meta().is_some_and(|m| m.is_deleting()), "{going:?}");
    let release = Patch::Json(json!([{"op": "remove", "path": "/metadata/finalizers"}]));
    client.patch_dynamic(&PODS, &key, None, &release).await.unwrap();
    assert!(client.get_dynamic(&PODS, &key).await.unwrap_err().is_not_found());
}

async fn watches(client: &Client) {
    let params = WatchParams {
        namespace: Some("default".into()),
        send_initial_events: true,
        ..WatchParams::default()
    };
    let map = |name: &str| json!({"metadata": {"name": name, "labels": {"set": "watch"}}});
    client.create_dynamic(&CONFIG_MAPS, "default", &map("before")).await.unwrap();
    for metadata_only in [false, true] {
        let params = WatchParams { metadata_only, ..params.clone() };
        let mut watch = client.watch(&CONFIG_MAPS, &params).await.unwrap();
        let mut names = vec![];
        let bookmark = loop {
            let event = watch.next().await.unwrap().unwrap();
            let object: serde_json::Value = event.object.decode_as().unwrap();
            if event.kind == EventKind::Bookmark {
                break object;
            }
            assert_eq!(object["kind"] == "PartialObjectMetadata", metadata_only);
            names.push(object["metadata"]["name"].as_str().unwrap().to_owned());
        };
        assert!(names.contains(&"before".to_owned()), "{names:?}");
        assert_eq!(bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");

        client.create_dynamic(&CONFIG_MAPS, "default", &map("after")).await.unwrap();
        // On a slow machine, bookmarks may come in between.
        let mut changes = watch
            .map(Result::unwrap)
            .filter(|event| std::future::ready(event.kind != EventKind::Bookmark))
            .boxed();
        assert_eq!(changes.next().await.unwrap().kind, EventKind::Added);
        client
            .delete_dynamic(&CONFIG_MAPS, &Key::new("default", "after"), &Default::default())
            .await
            .unwrap();
        assert_eq!(changes.next().await.unwrap().kind, EventKind::Deleted);
    }
}

async fn pages(client: &Client) {
    for n in 0..7 {
        let map = json!({"metadata": {"name": format!("page-{n}"), "labels": {"set": "pages"}}});
        client.create_dynamic(&CONFIG_MAPS, "default", &map).await.unwrap();
    }
    let mut params =
        ListParams { label_selector: Some("set in (pages)".into()), limit: Some(3), ..Default::default() };
    let mut sizes = vec![];
    loop {
        let page = client.list_as::<PartialObject>(&CONFIG_MAPS, Some("default"), &params).await.unwrap();
        sizes.push(page.items.len());
        params.continue_ = page.continue_;
        if params.continue_.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [3, 3, 1]);
    let all = ListParams { metadata_only: true, ..ListParams::default() };
    let raw = client.list_raw(&CONFIG_MAPS, None, &all).await.unwrap();
    assert!(raw.items.len() >= 8 && raw.resource_version.0 > 0);
    let everything = ListParams { label_selector: Some("set=pages".into()), ..ListParams::default() };
    client.delete_collection(&CONFIG_MAPS, Some("default"), &everything, &Default::default()).await.unwrap();
    let left = client.list_raw(&CONFIG_MAPS, Some("default"), &everything).await.unwrap();
    assert!(left.items.is_empty());
}

async fn discovery(client: &Client) {
    let found = client.discover().await.unwrap();
    assert!(found.failures.is_empty(), "{:?}", found.failures);
    let deployments = found.resources.iter().find(|r| r.resource.to_string() == "deployments.apps").unwrap();
    assert!(deployments.preferred && deployments.has_verb("watch") && deployments.resource.namespaced);
    assert!(deployments.subresources.iter().any(|s| s == "status"));
    let nodes = found.resources.iter().find(|r| r.resource.to_string() == "nodes").unwrap();
    assert_eq!((nodes.resource.kind.as_str(), nodes.resource.namespaced), ("Node", false));
}

async fn identities(connection: &Connection, admin: &Client) {
    let main = Client::new(connection.transport(), options("kube-controller-manager"));
    let base = flyball_client::user_agent("v1.36.4", "0123456", "");
    let identities = Identities::per_account(main, connection.anonymous_transport(), base);
    let controller = identities.client_for("replicaset-controller", "replicaset-controller");
    let pod = json!({"metadata": {"generateName": "by-account-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made: PartialObject = controller.create_as(&PODS, Some("default"), &pod).await.unwrap();
    assert!(made.metadata.name.starts_with("by-account-"));
    // Its own role and no other's.
    let map = json!({"metadata": {"name": "not-mine"}});
    assert!(controller.create_dynamic(&CONFIG_MAPS, "default", &map).await.unwrap_err().is_forbidden());

    // The tokens are deleted with the account. The next request gets a 401 before it succeeds.
    let key = Key::new("kube-system", "replicaset-controller");
    admin.delete_dynamic(&SERVICE_ACCOUNTS, &key, &DeleteOptions::default()).await.unwrap();
    let again = async {
        // The server caches a token for a few seconds.
        while admin.get_dynamic(&SERVICE_ACCOUNTS, &key).await.is_err() {
            controller.create_dynamic(&PODS, "default", &pod).await.unwrap();
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), again).await.unwrap();
}

async fn many_watches(client: &Client) {
    let mut watches = vec![];
    for _ in 0..120 {
        let mut watch = client
            .watch(&CONFIG_MAPS, &WatchParams { send_initial_events: true, ..Default::default() })
            .await
            .unwrap();
        watch.next().await.unwrap().unwrap();
        watches.push(watch);
    }
    // Requests are not held up by them.
    let started = std::time::Instant::now();
    client.get_raw("/version").await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(5));
}
