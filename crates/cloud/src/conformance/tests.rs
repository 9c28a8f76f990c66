//! The suite passes the simulated cloud, and fails each of these broken ones where they are broken.

use std::time::Duration;

use flyball_api::service::LoadBalancerStatus;
use parking_lot::Mutex;

use super::*;
use crate::simulated::{Config, Machine, MachineState, Pool, Simulated};
use crate::{Instances, LoadBalancers, Metadata, Route, Routes};

fn simulated() -> Cloud {
    let machine = |name: &str, state| Machine {
        name: name.into(),
        state,
        addresses: serde_json::from_value(json!([{"type": "InternalIP", "address": "10.0.0.1"}])).unwrap(),
        ..Machine::default()
    };
    let ranges = ["192.0.2.0/24", "2001:db8::/64"].map(|range| range.parse().unwrap());
    let pool = Pool { addresses: ranges.into(), ready_after: Duration::from_secs(5), ..Pool::default() };
    let machines = vec![machine("a", MachineState::Running), machine("b", MachineState::Stopped)];
    let config = Config {
        machines: Some(machines),
        load_balancers: Some(pool),
        routes: Some(vec![]),
        ..Config::default()
    };
    Simulated::new(config).cloud()
}

fn world(cloud: Cloud) -> World {
    World {
        running: vec![node("a", "")],
        stopped: vec![node("b", "")],
        gone: vec![node("c", "simulated://c")],
        ranges: ["10.244.0.0/24", "10.244.1.0/24"].map(str::to_owned).into(),
        is_dual_stack: true,
        ..World::new(cloud)
    }
}

#[tokio::test(start_paused = true)]
async fn the_simulated_cloud_passes_every_check() {
    let report = check(&world(simulated())).await;
    assert!(report.is_passed(), "{report}");
    assert_eq!((report.passed().count(), report.skipped().count()), (14, 0), "{report}");
}

/// A cloud in which everything exists, and everything is forgotten.
#[derive(Default)]
struct Careless {
    made: Mutex<usize>,
}

impl Instances for Careless {
    async fn exists(&self, _: &Node) -> Result<bool, CloudError> {
        Ok(true)
    }
    async fn is_shut_down(&self, _: &Node) -> Result<bool, CloudError> {
        Ok(false)
    }
    async fn metadata(&self, node: &Node) -> Result<Option<Metadata>, CloudError> {
        Ok(Some(Metadata { provider_id: node.metadata.name.clone(), ..Metadata::default() }))
    }
}

impl LoadBalancers for Careless {
    fn name(&self, _: &str, _: &Service) -> String {
        "the-one".to_owned()
    }
    async fn get(&self, _: &str, _: &Service) -> Result<Option<LoadBalancerStatus>, CloudError> {
        Ok(None)
    }
    async fn ensure(&self, _: &str, _: &Service, _: &[Arc<Node>]) -> Result<LoadBalancerStatus, CloudError> {
        let mut made = self.made.lock();
        *made += 1;
        let status = json!({"ingress": [{"ip": format!("192.0.2.{made}")}]});
        serde_json::from_value(status).map_err(CloudError::failed)
    }
    async fn update(&self, _: &str, _: &Service, _: &[Arc<Node>]) -> Result<(), CloudError> {
        Ok(())
    }
    async fn delete(&self, _: &str, _: &Service) -> Result<(), CloudError> {
        match *self.made.lock() {
            0 => Err(CloudError::failed("there is none")),
            _ => Ok(()),
        }
    }
}

/// Routes that can be added and not removed, as often as one likes.
impl Routes for Careless {
    async fn list(&self, _: &str) -> Result<Vec<Route>, CloudError> {
        let route = Route { node: "b".into(), destination: "10.244.0.0/24".into(), ..Route::default() };
        Ok(vec![route; 2])
    }
    async fn create(&self, _: &str, _: &str, _: &Route) -> Result<(), CloudError> {
        Ok(())
    }
    async fn delete(&self, _: &str, _: &Route) -> Result<(), CloudError> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn every_check_can_fail() {
    let careless = Cloud::new("careless")
        .with_instances(Careless::default())
        .with_load_balancers(Careless::default())
        .with_routes(Careless::default());
    let report = check(&world(careless)).await;
    let passed: Vec<&str> = report.passed().collect();
    // Nothing is ever there, so nothing is left.
    assert_eq!(passed, ["a deleted load balancer is gone, and deleting it again is no failure"], "{report}");
    let forgetful = check(&world(simulated_that_never_deletes())).await;
    let failed: Vec<&str> = forgetful.failed().map(|(check, _)| check).collect();
    assert_eq!(
        failed,
        ["a deleted load balancer is gone, and deleting it again is no failure"],
        "{forgetful}"
    );
}

/// The simulated cloud, whose load balancers stay.
fn simulated_that_never_deletes() -> Cloud {
    struct Sticky(Cloud);
    impl LoadBalancers for Sticky {
        async fn get(&self, c: &str, service: &Service) -> Result<Option<LoadBalancerStatus>, CloudError> {
            self.0.load_balancers.as_ref().unwrap().get(c, service).await
        }
        async fn ensure(
            &self,
            c: &str,
            service: &Service,
            nodes: &[Arc<Node>],
        ) -> Result<LoadBalancerStatus, CloudError> {
            self.0.load_balancers.as_ref().unwrap().ensure(c, service, nodes).await
        }
        async fn update(&self, c: &str, service: &Service, nodes: &[Arc<Node>]) -> Result<(), CloudError> {
            self.0.load_balancers.as_ref().unwrap().update(c, service, nodes).await
        }
        async fn delete(&self, _: &str, _: &Service) -> Result<(), CloudError> {
            Ok(())
        }
    }
    Cloud::new("sticky").with_load_balancers(Sticky(simulated()))
}

#[tokio::test(start_paused = true)]
async fn what_the_world_does_not_have_is_skipped_and_says_so() {
    let report = check(&World::new(Cloud::new("empty"))).await;
    let text = "SKIPPED  instances: this cloud has none\nSKIPPED  load balancers: this cloud has none\n\
                SKIPPED  routes: this cloud has none\n";
    assert_eq!(report.to_string(), text);
}
