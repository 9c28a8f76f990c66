//! A cloud-controller-manager for machines in a list: the smallest provider that is of use. docs/cloud.md explains it part by
//! part, and a test compares the two.

use std::process::ExitCode;
use std::sync::Arc;

use flyball_api::Node;
use flyball_cloud::kit::{Checked, ConfigFile};
use flyball_cloud::{Cloud, CloudError, Flag, Instances, Metadata, OpenError, Opening, Provider, VendorFlag};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Machines {
    names: Vec<String>,
}

impl Checked for Machines {
    fn problem(&self) -> Option<String> {
        self.names.is_empty().then(|| "names needs a machine, such as [node-1]".to_owned())
    }
}

struct Acme {
    machines: Arc<ConfigFile<Machines>>,
    region: String,
}

impl Acme {
    fn machine(&self, node: &Node) -> Option<String> {
        let id = node.spec.provider_id.strip_prefix("acme://").unwrap_or(&node.metadata.name);
        self.machines.current().names.iter().find(|name| *name == id).cloned()
    }
}

impl Instances for Acme {
    async fn exists(&self, node: &Node) -> Result<bool, CloudError> {
        Ok(self.machine(node).is_some())
    }

    async fn is_shut_down(&self, _: &Node) -> Result<bool, CloudError> {
        Err(CloudError::NotImplemented)
    }

    async fn metadata(&self, node: &Node) -> Result<Option<Metadata>, CloudError> {
        let name = self.machine(node).ok_or(CloudError::InstanceNotFound)?;
        let provider_id = format!("acme://{name}").into();
        Ok(Some(Metadata { provider_id, region: self.region.as_str().into(), ..Metadata::default() }))
    }
}

const REGION: VendorFlag<String> = VendorFlag::text("acme-region", "north-1", "The region of all machines.");
const FLAGS: &[Flag] = &[REGION.flag()];
const ACME: Provider = Provider::new("acme", |opening| Box::pin(open(opening))).with_flags(FLAGS);

async fn open(opening: Opening) -> Result<Cloud, OpenError> {
    let file = opening.config_file.as_deref().ok_or("--cloud-config must name a file with the machines")?;
    let machines = Arc::new(ConfigFile::open(file)?);
    Ok(Cloud::new("acme").with_instances(Acme { machines, region: REGION.get(&opening.flags) }))
}

fn main() -> ExitCode {
    flyball_cloud::main(&[ACME])
}

#[cfg(test)]
mod tests;
