//! The format of kubeconfig files. Values are checked one by one rather than by serde, whose errors quote what they reject: here
//! that may be a password.

use std::path::{Path, PathBuf};

use serde_yaml::Value;

#[derive(Debug, Default)]
pub(crate) struct Kubeconfig {
    pub(crate) current_context: Option<String>,
    pub(crate) contexts: Vec<Named<Context>>,
    pub(crate) clusters: Vec<Named<Cluster>>,
    pub(crate) users: Vec<Named<AuthInfo>>,
}

#[derive(Debug)]
pub(crate) struct Named<T> {
    pub(crate) name: String,
    pub(crate) value: Option<T>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Context {
    pub(crate) cluster: String,
    pub(crate) user: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) server: Option<String>,
    pub(crate) tls_server_name: Option<String>,
    pub(crate) insecure_skip_tls_verify: bool,
    pub(crate) certificate_authority: Option<PathBuf>,
    pub(crate) certificate_authority_data: Option<String>,
    pub(crate) proxy_url: Option<String>,
    pub(crate) disable_compression: bool,
    /// The extension `client.authentication.k8s.io/exec`, for credential plugins.
    pub(crate) for_plugins: Option<serde_json::Value>,
}

#[derive(Clone, Default)]
pub(crate) struct AuthInfo {
    pub(crate) client_certificate: Option<PathBuf>,
    pub(crate) client_certificate_data: Option<String>,
    pub(crate) client_key: Option<PathBuf>,
    pub(crate) client_key_data: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) impersonate: Option<String>,
    pub(crate) impersonate_uid: Option<String>,
    pub(crate) impersonate_groups: Vec<String>,
    pub(crate) impersonate_extra: Vec<(String, Vec<String>)>,
    pub(crate) auth_provider: Option<String>,
    pub(crate) exec: Option<ExecConfig>,
}

/// Secrets stay out of logs.
impl std::fmt::Debug for AuthInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthInfo").finish_non_exhaustive()
    }
}

#[derive(Clone, Default)]
pub(crate) struct ExecConfig {
    pub(crate) command: Option<PathBuf>,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) api_version: Option<String>,
    pub(crate) install_hint: Option<String>,
    pub(crate) provide_cluster_info: bool,
    pub(crate) interactive_mode: Option<String>,
}

impl Kubeconfig {
    /// Parses YAML (and so JSON). Paths are relative to `folder`. Unknown fields are ignored, as in client-go.
    pub(crate) fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let mut documents = serde_yaml::Deserializer::from_str(text);
        let Some(first) = documents.next() else { return Ok(Self::default()) };
        let mut value: Value = serde::Deserialize::deserialize(first).map_err(|e| e.to_string())?;
        value.apply_merge().map_err(|e| e.to_string())?;
        let root = Node { path: String::new(), value: &value };
        if root.value.is_null() {
            return Ok(Self::default());
        }
        root.mapping()?;
        Ok(Self {
            current_context: root.text("current-context")?,
            contexts: root.named("contexts", "context", |node| {
                let text = |key| node.text(key).map(Option::unwrap_or_default);
                Ok(Context { cluster: text("cluster")?, user: text("user")? })
            })?,
            clusters: root.named("clusters", "cluster", |node| cluster(node, folder))?,
            users: root.named("users", "user", |node| auth_info(node, folder))?,
        })
    }

    /// Adds what another file has and this one does not.
    pub(crate) fn merge(&mut self, other: Self) {
        fn add<T>(to: &mut Vec<Named<T>>, from: Vec<Named<T>>) {
            for entry in from {
                if !to.iter().any(|known| known.name == entry.name) {
                    to.push(entry);
                }
            }
        }
        self.current_context = self.current_context.take().or(other.current_context);
        add(&mut self.contexts, other.contexts);
        add(&mut self.clusters, other.clusters);
        add(&mut self.users, other.users);
    }
}

fn cluster(node: &Node<'_>, folder: &Path) -> Result<Cluster, String> {
    Ok(Cluster {
        server: node.text("server")?,
        tls_server_name: node.text("tls-server-name")?,
        insecure_skip_tls_verify: node.flag("insecure-skip-tls-verify")?,
        certificate_authority: node.file("certificate-authority", folder)?,
        certificate_authority_data: node.text("certificate-authority-data")?,
        proxy_url: node.text("proxy-url")?,
        disable_compression: node.flag("disable-compression")?,
        for_plugins: for_plugins(node)?,
    })
}

fn for_plugins(cluster: &Node<'_>) -> Result<Option<serde_json::Value>, String> {
    for extension in cluster.list("extensions")? {
        if extension.text("name")?.as_deref() == Some("client.authentication.k8s.io/exec") {
            let value = extension.get("extension").map(|e| e.value.clone()).unwrap_or_default();
            let json = serde_json::to_value(&value);
            return json.map(Some).map_err(|_| format!("{}.extension: is not JSON", extension.path));
        }
    }
    Ok(None)
}

fn auth_info(node: &Node<'_>, folder: &Path) -> Result<AuthInfo, String> {
    let exec = node.get("exec").map(|exec| exec_config(&exec, folder)).transpose()?;
    let provider = node.get("auth-provider").map(|p| p.text("name").map(Option::unwrap_or_default));
    let extra = node.get("as-user-extra").map_or(Ok(vec![]), |extra| {
        extra
            .keys()?
            .into_iter()
            .map(|key| Ok((key.clone(), extra.texts(&key)?)))
            .collect::<Result<_, String>>()
    });
    Ok(AuthInfo {
        client_certificate: node.file("client-certificate", folder)?,
        client_certificate_data: node.text("client-certificate-data")?,
        client_key: node.file("client-key", folder)?,
        client_key_data: node.text("client-key-data")?,
        token: node.text("token")?,
        token_file: node.file("tokenFile", folder)?,
        username: node.text("username")?,
        password: node.text("password")?,
        impersonate: node.text("as")?,
        impersonate_uid: node.text("as-uid")?,
        impersonate_groups: node.texts("as-groups")?,
        impersonate_extra: extra?,
        auth_provider: provider.transpose()?,
        exec,
    })
}

fn exec_config(node: &Node<'_>, folder: &Path) -> Result<ExecConfig, String> {
    node.mapping()?;
    let command = node.text("command")?.map(|command| match command.contains('/') {
        true => folder.join(command),
        // Found through PATH.
        false => PathBuf::from(command),
    });
    let variable = |entry: Node<'_>| {
        let text = |key| entry.text(key).map(Option::unwrap_or_default);
        Ok((text("name")?, text("value")?))
    };
    Ok(ExecConfig {
        command,
        args: node.texts("args")?,
        env: node.list("env")?.into_iter().map(variable).collect::<Result<_, String>>()?,
        api_version: node.text("apiVersion")?,
        install_hint: node.text("installHint")?,
        provide_cluster_info: node.flag("provideClusterInfo")?,
        interactive_mode: node.text("interactiveMode")?,
    })
}

/// A value and its path in the file, for errors.
struct Node<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Node<'a> {
    fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of a key; null is as good as nothing.
    fn get(&self, key: &str) -> Option<Node<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Node { path: self.at(key), value })
    }

    fn mapping(&self) -> Result<&'a serde_yaml::Mapping, String> {
        self.value.as_mapping().ok_or_else(|| self.wrong("a mapping"))
    }

    fn keys(&self) -> Result<Vec<String>, String> {
        let text =
            |key: &Value| key.as_str().map(str::to_owned).ok_or_else(|| self.wrong("a mapping from strings"));
        self.mapping()?.keys().map(text).collect()
    }

    /// A string that is not empty.
    fn text(&self, key: &str) -> Result<Option<String>, String> {
        let Some(node) = self.get(key) else { return Ok(None) };
        let text = node.value.as_str().ok_or_else(|| node.wrong("a string"))?;
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    fn file(&self, key: &str, folder: &Path) -> Result<Option<PathBuf>, String> {
        Ok(self.text(key)?.map(|path| folder.join(path)))
    }

    fn flag(&self, key: &str) -> Result<bool, String> {
        let Some(node) = self.get(key) else { return Ok(false) };
        match node.value {
            Value::Bool(flag) => Ok(*flag),
            // YAML 1.1, which client-go reads.
            Value::String(text) if matches!(text.as_str(), "yes" | "Yes" | "YES" | "on" | "On" | "ON") => {
                Ok(true)
            }
            Value::String(text) if matches!(text.as_str(), "no" | "No" | "NO" | "off" | "Off" | "OFF") => {
                Ok(false)
            }
            _ => Err(node.wrong("true or false")),
        }
    }

    fn list(&self, key: &str) -> Result<Vec<Node<'a>>, String> {
        let Some(node) = self.get(key) else { return Ok(vec![]) };
        let values = node.value.as_sequence().ok_or_else(|| node.wrong("a list"))?;
        let entry = |(at, value)| Node { path: format!("{}[{at}]", node.path), value };
        Ok(values.iter().enumerate().map(entry).collect())
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        let text =
            |node: Node<'_>| node.value.as_str().map(str::to_owned).ok_or_else(|| node.wrong("a string"));
        self.list(key)?.into_iter().map(text).collect()
    }

    /// The entries of a list of `{name: …, <key>: …}`.
    fn named<T>(
        &self,
        list: &str,
        key: &str,
        read: impl Fn(&Node<'a>) -> Result<T, String>,
    ) -> Result<Vec<Named<T>>, String> {
        let entry = |node: Node<'a>| {
            node.mapping()?;
            let name = node.text("name")?.unwrap_or_default();
            let value = node.get(key).map(|value| value.mapping().and_then(|_| read(&value))).transpose()?;
            Ok(Named { name, value })
        };
        self.list(list)?.into_iter().map(entry).collect()
    }

    fn wrong(&self, wanted: &str) -> String {
        let is = match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Sequence(_) => "a list",
            Value::Mapping(_) => "a mapping",
            Value::Tagged(_) => "a value with a tag",
        };
        let place = if self.path.is_empty() { "the file" } else { self.path.as_str() };
        format!("{place} is {is} and must be {wanted}")
    }
}
