//! Simulated routes, in memory.

use smol_str::format_smolstr;

use super::{Call, Simulated};
use crate::provider::{CloudError, Route, Routes};

pub(super) struct Table(pub(super) Simulated);

impl Routes for Table {
    async fn list(&self, _: &str) -> Result<Vec<Route>, CloudError> {
        self.0.answer(Call::ListRoutes, |state| Ok(state.routes.clone()))
    }

    async fn create(&self, cluster: &str, hint: &str, route: &Route) -> Result<(), CloudError> {
        self.0.answer(Call::CreateRoute, |state| {
            let is_same = |other: &Route| other.node == route.node && other.destination == route.destination;
            if state.routes.iter().any(is_same) {
                return Err(CloudError::failed(format!(
                    "there is a route to {} for {} already",
                    route.node, route.destination
                )));
            }
            let name = format_smolstr!("{cluster}-{hint}-{}", route.destination);
            state.routes.push(Route { name, ..route.clone() });
            Ok(())
        })
    }

    async fn delete(&self, _: &str, route: &Route) -> Result<(), CloudError> {
        self.0.answer(Call::DeleteRoute, |state| {
            state.routes.retain(|other| other.name != route.name);
            Ok(())
        })
    }
}
