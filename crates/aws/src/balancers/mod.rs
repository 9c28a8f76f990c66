//! Load balancers: a network load balancer for each Service, with a listener and a target group for each port.
//!
//! `plan` decides; this file reads and changes AWS. What belongs to a load balancer is found by name, and touched only if it has the tag of
//! the cluster.

pub mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flyball_api::service::{LoadBalancerIngress, LoadBalancerStatus};
use flyball_api::{Node, Service};
use flyball_cloud::{CloudError, LoadBalancers, default_name};
use smol_str::SmolStr;

use self::plan::{Observed, Step, Wanted, group_prefix};
use crate::config::{self, Scheme};
use crate::ec2::{Ec2, Subnet, cluster_tag, subnet_tag};
use crate::elb::{Balancer, Elb};

/// The tag that says for which Service something is.
const SERVICE_TAG: &str = "kubernetes.io/service-name";
/// When to ask again whether a new load balancer is ready: that takes some minutes.
const NOT_READY: Duration = Duration::from_secs(10);
/// When to try again to delete a target group: its listener is forgotten after some seconds.
const IN_USE: Duration = Duration::from_secs(5);

/// The state of a new load balancer.
const MAKING: &str = "provisioning";

pub(crate) struct NetworkBalancers {
    pub(crate) elb: Elb,
    pub(crate) ec2: Ec2,
    pub(crate) settings: config::LoadBalancers,
}

impl LoadBalancers for NetworkBalancers {
    async fn get(&self, cluster: &str, service: &Service) -> Result<Option<LoadBalancerStatus>, CloudError> {
        let found = self.find(cluster, &default_name(service)).await?;
        Ok(found.map(|balancer| status(&balancer)))
    }

    async fn ensure(
        &self,
        cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> Result<LoadBalancerStatus, CloudError> {
        let wanted = Wanted::new(service, nodes, &self.settings).map_err(CloudError::failed)?;
        let balancer = match self.find(cluster, &wanted.name).await? {
            Some(balancer) => balancer,
            None => self.create(cluster, &wanted).await?,
        };
        self.reconcile(cluster, &balancer, &wanted).await?;
        // It may have become ready meanwhile.
        let balancer = match balancer.state.as_str() {
            MAKING => self.find(cluster, &wanted.name).await?.unwrap_or(balancer),
            _ => balancer,
        };
        ready(&wanted.name, &balancer)
    }

    async fn update(&self, cluster: &str, service: &Service, nodes: &[Arc<Node>]) -> Result<(), CloudError> {
        let wanted = Wanted::new(service, nodes, &self.settings).map_err(CloudError::failed)?;
        let balancer = self.find(cluster, &wanted.name).await?;
        let balancer = balancer
            .ok_or_else(|| CloudError::failed(format!("there is no load balancer {}", wanted.name)))?;
        self.reconcile(cluster, &balancer, &wanted).await
    }

    async fn delete(&self, cluster: &str, service: &Service) -> Result<(), CloudError> {
        let name = default_name(service);
        let Some(balancer) = self.find(cluster, &name).await? else { return Ok(()) };
        let observed = self.observe(cluster, &balancer, &name, Depth::Names).await?;
        let context = Applying { balancer: &balancer, cluster, wanted: None };
        self.apply(&context, &observed, plan::plan_deletion(&observed)).await?;
        tracing::info!(balancer = name, "deleting a load balancer");
        Ok(self.elb.delete_balancer(&balancer.arn).await?)
    }
}

/// How much is read of target groups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Names,
    Targets,
}

/// What steps are applied to.
struct Applying<'a> {
    balancer: &'a Balancer,
    cluster: &'a str,
    wanted: Option<&'a Wanted>,
}

impl NetworkBalancers {
    /// The load balancer of this name. One that is not of the cluster is an error, and stays as it is.
    async fn find(&self, cluster: &str, name: &str) -> Result<Option<Balancer>, CloudError> {
        let Some(balancer) = self.elb.balancer(name).await? else { return Ok(None) };
        self.check_tags(cluster, &[(&balancer.arn, &format!("load balancer {name}"))]).await?;
        Ok(Some(balancer))
    }

    /// Fails if something, by ARN and name, does not have the tag of the cluster.
    async fn check_tags(&self, cluster: &str, things: &[(&str, &str)]) -> Result<(), CloudError> {
        let arns: Vec<&str> = things.iter().map(|(arn, _)| *arn).collect();
        let (tags, tag) = (self.elb.tags(&arns).await?, cluster_tag(cluster));
        let is_foreign =
            |(arn, _): &&(&str, &str)| !tags.get(*arn).is_some_and(|tags| tags.contains_key(&tag));
        match things.iter().find(is_foreign) {
            None => Ok(()),
            Some((_, name)) => Err(CloudError::failed(format!(
                "the {name} does not have the tag {tag}, so it is not touched; delete it, or give it the tag if it is of this cluster"
            ))),
        }
    }

    async fn create(&self, cluster: &str, wanted: &Wanted) -> Result<Balancer, CloudError> {
        let subnets = self.subnets(wanted.scheme).await?;
        let tags = tags(cluster, wanted);
        let made = self.elb.create_balancer(&wanted.name, wanted.scheme, &subnets, &tags).await?;
        tracing::info!(balancer = wanted.name, service = %wanted.service, "created a load balancer");
        Ok(made)
    }

    async fn subnets(&self, scheme: Scheme) -> Result<Vec<SmolStr>, CloudError> {
        if !self.settings.subnets.is_empty() {
            return Ok(self.settings.subnets.iter().map(|subnet| subnet.0.0.clone()).collect());
        }
        let found = one_for_each_zone(self.ec2.balancer_subnets(scheme).await?);
        match found.is_empty() {
            false => Ok(found),
            true => Err(CloudError::failed(format!(
                "no subnet of {} has the tag {}; give it to one in each zone, or name them in loadBalancers.subnets in the file of --cloud-config",
                self.ec2.vpc(),
                subnet_tag(scheme)
            ))),
        }
    }

    async fn reconcile(&self, cluster: &str, balancer: &Balancer, wanted: &Wanted) -> Result<(), CloudError> {
        let (is, scheme) = (&balancer.scheme, wanted.scheme.name());
        if is != scheme {
            return Err(CloudError::failed(format!(
                "the load balancer {} is {is}, and its Service asks for {scheme}; that cannot be changed: make the Service again, or ask for {is}",
                wanted.name
            )));
        }
        let observed = self.observe(cluster, balancer, &wanted.name, Depth::Targets).await?;
        let steps = plan::plan(wanted, &observed);
        self.apply(&Applying { balancer, cluster, wanted: Some(wanted) }, &observed, steps).await
    }

    async fn observe(
        &self,
        cluster: &str,
        balancer: &Balancer,
        name: &str,
        depth: Depth,
    ) -> Result<Observed, CloudError> {
        let listeners = self.elb.listeners(&balancer.arn).await?;
        let mut groups = self.elb.groups(&group_prefix(name)).await?;
        let names: Vec<String> = groups.iter().map(|group| format!("target group {}", group.name)).collect();
        let things: Vec<(&str, &str)> =
            groups.iter().zip(&names).map(|(group, name)| (&*group.arn, &**name)).collect();
        self.check_tags(cluster, &things).await?;
        for group in groups.iter_mut().filter(|_| depth == Depth::Targets) {
            group.targets = self.elb.targets(&group.arn).await?;
            group.is_sticky = self.elb.is_sticky(&group.arn).await?;
        }
        Ok(Observed { groups, listeners })
    }

    async fn apply(
        &self,
        to: &Applying<'_>,
        observed: &Observed,
        steps: Vec<Step>,
    ) -> Result<(), CloudError> {
        let arn = |group: &plan::Group| (group.name.clone(), group.arn.clone());
        let mut arns: BTreeMap<SmolStr, String> = observed.groups.iter().map(arn).collect();
        for step in steps {
            tracing::debug!(balancer = %to.balancer.host, ?step, "changing a load balancer");
            if let Some((name, arn)) = self.step(to, &arns, step).await? {
                arns.insert(name, arn);
            }
        }
        Ok(())
    }

    /// Does one step; the group that it has made.
    async fn step(
        &self,
        to: &Applying<'_>,
        arns: &BTreeMap<SmolStr, String>,
        step: Step,
    ) -> Result<Option<(SmolStr, String)>, CloudError> {
        let arn = |group: &SmolStr| arns.get(group).map_or("", String::as_str);
        let tags = to.wanted.map(|wanted| tags(to.cluster, wanted)).unwrap_or_default();
        match (step, to.wanted) {
            (Step::CreateGroup { name, protocol, port }, Some(wanted)) => {
                let vpc = self.ec2.vpc();
                let made = self.elb.create_group(&name, protocol, port, &wanted.health, vpc, &tags).await?;
                return Ok(Some((name, made)));
            }
            (Step::SetHealth { group }, Some(wanted)) => {
                self.elb.set_health(arn(&group), &wanted.health).await?;
            }
            (Step::CreateGroup { .. } | Step::SetHealth { .. }, None) => {}
            (Step::SetSticky { group, is_sticky }, _) => self.elb.set_sticky(arn(&group), is_sticky).await?,
            (Step::Register { group, targets }, _) => {
                for refused in self.elb.register(arn(&group), &targets).await? {
                    tracing::warn!(group = %group, instance = %refused.instance, "the machine does not run, and is no target of the load balancer");
                }
            }
            (Step::DeleteListener { arn }, _) => self.elb.delete_listener(&arn).await?,
            (Step::CreateListener { protocol, port, group }, _) => {
                let on = (protocol, port);
                self.elb.create_listener(&to.balancer.arn, on, arn(&group), &tags).await?;
            }
            (Step::ModifyListener { arn: listener, group }, _) => {
                self.elb.modify_listener(&listener, arn(&group)).await?;
            }
            (Step::Deregister { group, targets }, _) => self.elb.deregister(arn(&group), &targets).await?,
            (Step::DeleteGroup { group }, _) => match self.elb.delete_group(arn(&group)).await {
                Err(error) if error.code() == "ResourceInUse" => {
                    let message = format!("the target group {group} is still in use");
                    return Err(CloudError::RetryAfter { message, after: IN_USE });
                }
                result => result?,
            },
        }
        Ok(None)
    }
}

/// The first subnet of every zone. A load balancer can have no more.
fn one_for_each_zone(subnets: Vec<Subnet>) -> Vec<SmolStr> {
    let mut zones = BTreeSet::new();
    subnets.into_iter().filter(|subnet| zones.insert(subnet.zone.clone())).map(|subnet| subnet.id).collect()
}

fn tags(cluster: &str, wanted: &Wanted) -> Vec<(String, String)> {
    vec![(cluster_tag(cluster), "owned".to_owned()), (SERVICE_TAG.to_owned(), wanted.service.to_string())]
}

/// The status of a load balancer that is ready.
fn ready(name: &str, balancer: &Balancer) -> Result<LoadBalancerStatus, CloudError> {
    match balancer.state.as_str() {
        "active" | "active_impaired" => Ok(status(balancer)),
        MAKING => Err(CloudError::RetryAfter {
            message: format!("AWS is making the load balancer {name}"),
            after: NOT_READY,
        }),
        state => Err(CloudError::failed(format!("the load balancer {name} is {state}: {}", balancer.reason))),
    }
}

fn status(balancer: &Balancer) -> LoadBalancerStatus {
    let ingress = LoadBalancerIngress { hostname: balancer.host.clone(), ..LoadBalancerIngress::default() };
    LoadBalancerStatus { ingress: vec![ingress] }
}
