//! Where keys come from: the environment, a role for a token of the cluster (STS), or the machine's role (IMDSv2).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::Timestamp;
use flyball_cloud::kit::http::{Call, Http, HttpError, OpenError, SecretError, SecretFile, segment};
use flyball_runtime::Metrics;
use http::{HeaderName, HeaderValue, Method};
use serde::Deserialize;

use crate::config::Config;
use crate::error::ApiError;
use crate::query::{Api, Parameters, STS};
use crate::sigv4::Keys;

/// The name of the metadata service in metrics.
const METADATA: &str = "instance-metadata";
/// It is near, or not there.
const PATIENCE: Duration = Duration::from_secs(2);
const ATTEMPTS: u32 = 2;
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
const LIFETIME: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
const TOKEN: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token");

/// The environment of the process.
pub type Environment<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

#[derive(Debug, Clone)]
pub enum Source {
    Fixed(Keys),
    /// A token of the cluster for a role.
    WebIdentity(WebIdentity),
    /// What the machine is allowed to do.
    Machine(Http),
}

#[derive(Debug, Clone)]
pub struct WebIdentity {
    api: Api,
    role: String,
    session: String,
    token: Arc<SecretFile>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("{0} is set, but not {1}; both are needed, or neither")]
    Half(&'static str, &'static str),
    #[error("AWS_WEB_IDENTITY_TOKEN_FILE")]
    Token(#[from] SecretError),
    #[error(transparent)]
    Address(#[from] OpenError),
    #[error("cannot assume the role {role} of AWS_ROLE_ARN")]
    Role {
        role: String,
        #[source]
        source: ApiError,
    },
    #[error(
        "there is no access key: neither AWS_ACCESS_KEY_ID nor AWS_WEB_IDENTITY_TOKEN_FILE is set, and {why}"
    )]
    NoMetadata {
        why: &'static str,
        #[source]
        source: Option<HttpError>,
    },
    #[error("the metadata of this machine has no valid access key for its role {role:?}")]
    NoKey { role: String },
}

impl Source {
    /// The first that the environment has, in the order of AWS's own tools.
    pub fn discover(
        environment: Environment<'_>,
        config: &Config,
        metrics: &Metrics,
    ) -> Result<Self, KeysError> {
        let given = |name: &str| environment(name).filter(|value| !value.is_empty());
        if let Some([id, secret]) = pair(&given, ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])? {
            let token = given("AWS_SESSION_TOKEN");
            return Ok(Self::Fixed(Keys { id, secret, token, expires: None }));
        }
        if let Some([file, role]) = pair(&given, ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"])? {
            let session = given("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "flyball".to_owned());
            let api = Api::new(config.http(&STS, metrics)?, &STS, Arc::default());
            let token = Arc::new(SecretFile::open(&PathBuf::from(file))?);
            return Ok(Self::WebIdentity(WebIdentity { api, role, session, token }));
        }
        if given("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            let why = "AWS_EC2_METADATA_DISABLED forbids to ask this machine";
            return Err(KeysError::NoMetadata { why, source: None });
        }
        let http = Http::new(METADATA, config.metadata(), metrics)?;
        Ok(Self::Machine(http.with_patience(PATIENCE).with_attempts(ATTEMPTS)))
    }

    pub async fn fetch(&self) -> Result<Keys, KeysError> {
        match self {
            Self::Fixed(keys) => Ok(keys.clone()),
            Self::WebIdentity(identity) => identity
                .assume()
                .await
                .map_err(|source| KeysError::Role { role: identity.role.clone(), source }),
            Self::Machine(http) => {
                let why = "this machine has no role that it could be asked for";
                let lacking = |source| KeysError::NoMetadata { why, source: Some(source) };
                let (role, answer) = of_machine(http).await.map_err(lacking)?;
                answer.keys().ok_or(KeysError::NoKey { role })
            }
        }
    }
}

/// The values of two variables that belong together.
fn pair(
    given: &dyn Fn(&str) -> Option<String>,
    names: [&'static str; 2],
) -> Result<Option<[String; 2]>, KeysError> {
    match names.map(given) {
        [Some(first), Some(second)] => Ok(Some([first, second])),
        [Some(_), None] => Err(KeysError::Half(names[0], names[1])),
        [None, Some(_)] => Err(KeysError::Half(names[1], names[0])),
        [None, None] => Ok(None),
    }
}

impl WebIdentity {
    /// The token is the signature, so this call has no other.
    async fn assume(&self) -> Result<Keys, ApiError> {
        const ACTION: &str = "AssumeRoleWithWebIdentity";
        let parameters = Parameters::new()
            .with("RoleArn", &self.role)
            .with("RoleSessionName", &self.session)
            .with("WebIdentityToken", self.token.current());
        let answer = self.api.read(ACTION, &parameters).await?;
        let text = |name: &str| answer.text(&format!("Credentials/{name}")).to_owned();
        let expires: Option<Timestamp> = text("Expiration").parse().ok();
        let keys = Keys {
            id: text("AccessKeyId"),
            secret: text("SecretAccessKey"),
            token: Some(text("SessionToken")),
            expires,
        };
        let is_whole = !keys.id.is_empty() && !keys.secret.is_empty() && expires.is_some();
        is_whole.then_some(keys).ok_or(ApiError::Incomplete { action: ACTION, what: "Credentials" })
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct MachineKeys {
    code: String,
    access_key_id: String,
    secret_access_key: String,
    token: String,
    expiration: Option<Timestamp>,
}

impl MachineKeys {
    fn keys(self) -> Option<Keys> {
        let is_valid = self.code == "Success" && self.expiration.is_some();
        let keys = Keys {
            id: self.access_key_id,
            secret: self.secret_access_key,
            token: Some(self.token),
            expires: self.expiration,
        };
        is_valid.then_some(keys)
    }
}

/// The role of this machine and its keys. A token that only the machine itself gets protects from requests that others forge.
async fn of_machine(http: &Http) -> Result<(String, MachineKeys), HttpError> {
    let asking = Call::new("getToken", Method::PUT, "/latest/api/token");
    let asking = asking.header(LIFETIME, HeaderValue::from_static("60"));
    let token = http.send(asking).await?.body;
    // What is no header is no token; without one, the answer is an error.
    let token = HeaderValue::from_bytes(&token).unwrap_or_else(|_| HeaderValue::from_static("none"));
    let get = |operation, path: &str| http.send(Call::get(operation, path).header(TOKEN, token.clone()));
    let roles = get("getRole", ROLES).await?.body;
    let role = String::from_utf8_lossy(&roles).lines().next().unwrap_or_default().trim().to_owned();
    let keys = get("getKeys", &format!("{ROLES}{}", segment(&role))).await?.json()?;
    Ok((role, keys))
}

#[cfg(test)]
mod tests {
    use flyball_runtime::Chain;

    use super::*;
    use crate::tests::fake::serving;

    fn config(endpoints: &str) -> Config {
        let text = format!("region: eu-central-1\nvpc: vpc-1\nendpoints: {endpoints}\n");
        flyball_cloud::kit::parse(&text).unwrap()
    }

    fn discover(variables: &[(&str, &str)], endpoints: &str) -> Result<Source, KeysError> {
        let found = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Source::discover(&found, &config(endpoints), &Metrics::default())
    }

    #[test]
    fn half_of_a_pair_is_an_error_that_names_the_other_half() {
        #[rustfmt::skip]
        let table: [(&[(&str, &str)], &str); 5] = [
            (&[("AWS_ACCESS_KEY_ID", "a")],                "AWS_ACCESS_KEY_ID is set, but not AWS_SECRET_ACCESS_KEY; both are needed, or neither"),
            (&[("AWS_SECRET_ACCESS_KEY", "a")],            "AWS_SECRET_ACCESS_KEY is set, but not AWS_ACCESS_KEY_ID; "),
            (&[("AWS_ROLE_ARN", "a")],                     "AWS_ROLE_ARN is set, but not AWS_WEB_IDENTITY_TOKEN_FILE; "),
            (&[("AWS_ROLE_ARN", "a"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "/no/such")], "AWS_WEB_IDENTITY_TOKEN_FILE: cannot read the secret in /no/such: No such file"),
            (&[("AWS_EC2_METADATA_DISABLED", "true")],     "there is no access key: neither AWS_ACCESS_KEY_ID nor AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_EC2_METADATA_DISABLED forbids"),
        ];
        for (variables, want) in table {
            let error = discover(variables, "{}").unwrap_err();
            let shown = Chain(&error).to_string();
            assert!(shown.starts_with(want), "{shown}");
        }
    }

    #[tokio::test]
    async fn a_role_is_assumed_with_the_token_of_the_file_as_it_is_now() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first.token").unwrap();
        let answer = "200 OK|<R><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA1</AccessKeyId>\
                      <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
                      <Expiration>2026-03-01T12:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></R>";
        let denied = "403 No|<E><Error><Code>AccessDenied</Code><Message>not yours</Message></Error></E>";
        let server = serving(&[answer, "200 OK|<R/>", denied].map(str::to_owned)).await;
        let path = file.path().to_str().unwrap();
        let variables = [("AWS_WEB_IDENTITY_TOKEN_FILE", path), ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")];
        let source = discover(&variables, &format!("{{sts: '{}'}}", server.address)).unwrap();
        std::fs::write(file.path(), "second.token/2").unwrap();
        let keys = source.fetch().await.unwrap();
        assert_eq!((keys.id.as_str(), keys.token.as_deref()), ("ASIA1", Some("t")));
        assert_eq!(keys.expires, "2026-03-01T12:00:00Z".parse().ok());
        let seen = server.seen.lock()[0].clone();
        assert!(seen.contains("RoleSessionName=flyball&WebIdentityToken=second.token%2F2"), "{seen}");
        assert!(!seen.to_lowercase().contains("authorization"), "{seen}");
        for want in ["AssumeRoleWithWebIdentity: the answer has no Credentials", "AccessDenied: not yours"] {
            let shown = Chain(&source.fetch().await.unwrap_err()).to_string();
            assert!(
                shown.starts_with("cannot assume the role arn:aws:iam::1:role/r") && shown.contains(want),
                "{shown}"
            );
        }
    }

    #[tokio::test]
    async fn a_machine_is_asked_with_a_token_for_the_keys_of_its_role() {
        let keys = r#"200 OK|{"Code":"Success","AccessKeyId":"ASIA2","SecretAccessKey":"s","Token":"t","Expiration":"2026-03-01T12:00:00Z","Type":"AWS-HMAC"}"#;
        let failed = r#"200 OK|{"Code":"AssumeRoleUnauthorizedAccess","Message":"no"}"#;
        let answers = ["200 OK|tok", "200 OK|my role\n", keys, "200 OK|tok", "200 OK|r", failed, "404 No|"];
        let server = serving(&answers.map(str::to_owned)).await;
        let source = discover(&[], &format!("{{metadata: '{}'}}", server.address)).unwrap();
        let found = source.fetch().await.unwrap();
        assert_eq!((found.id.as_str(), found.expires), ("ASIA2", "2026-03-01T12:00:00Z".parse().ok()));
        let seen = server.seen.lock().clone();
        assert!(
            seen[0].starts_with("PUT /latest/api/token ") && seen[0].contains("ttl-seconds: 60\r\n"),
            "{seen:?}"
        );
        assert!(seen[1].contains("x-aws-ec2-metadata-token: tok\r\n"), "{seen:?}");
        assert!(seen[2].starts_with(&format!("GET {ROLES}my%20role ")), "{seen:?}");
        let shown = Chain(&source.fetch().await.unwrap_err()).to_string();
        assert_eq!(shown, "the metadata of this machine has no valid access key for its role \"r\"");
        let shown = Chain(&source.fetch().await.unwrap_err()).to_string();
        assert!(
            shown.contains("this machine has no role that it could be asked for: PUT http://"),
            "{shown}"
        );
    }
}
