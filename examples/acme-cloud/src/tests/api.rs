use flyball_api::Node;
use flyball_cloud::kit::http::{Http, segment};
use flyball_cloud::{CloudError, Instances, Metadata};

pub(super) struct AcmeApi(pub(super) Http);

#[derive(serde::Deserialize)]
struct Machine {
    id: String,
    running: bool,
}

impl AcmeApi {
    async fn machine(&self, node: &Node) -> Result<Option<Machine>, CloudError> {
        let id = node.spec.provider_id.strip_prefix("acme://").unwrap_or(&node.metadata.name);
        match self.0.get("getMachine", &format!("/machines/{}", segment(id))).await {
            Ok(machine) => Ok(Some(machine)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Instances for AcmeApi {
    async fn exists(&self, node: &Node) -> Result<bool, CloudError> {
        Ok(self.machine(node).await?.is_some())
    }

    async fn is_shut_down(&self, node: &Node) -> Result<bool, CloudError> {
        let machine = self.machine(node).await?.ok_or(CloudError::InstanceNotFound)?;
        Ok(!machine.running)
    }

    async fn metadata(&self, node: &Node) -> Result<Option<Metadata>, CloudError> {
        let machine = self.machine(node).await?.ok_or(CloudError::InstanceNotFound)?;
        let provider_id = format!("acme://{}", machine.id).into();
        Ok(Some(Metadata { provider_id, ..Metadata::default() }))
    }
}
