//! Kinds with little behaviour: one strategy for all of them, configured in the catalog.

use jiff::Timestamp;
use serde_json::Value;

use super::json::Json;
use super::print::{self, Printer};
use crate::invalid::Cause;
use crate::registry::{Column, Cx, NameRule, Strategy, Subresource};

/// Validates an object; the second argument is the object before an update.
pub(super) type Validate = fn(&Value, Option<&Value>) -> Vec<Cause>;

/// Validates a new status; the second argument is the object before.
pub(super) type ValidateStatus = fn(&Value, &Value) -> Vec<Cause>;

/// The configuration of a kind.
#[derive(Clone, Copy)]
pub(super) struct Simple {
    print: &'static Printer,
    names: NameRule,
    validate: Validate,
    create_on_update: bool,
    unconditional: bool,
    content: &'static [&'static str],
    status_keeps_metadata: bool,
    warning: Option<&'static str>,
    validate_status: ValidateStatus,
}

impl Simple {
    /// A kind with these columns and no other behaviour.
    pub(super) const fn new(print: &'static Printer) -> Self {
        Self {
            print,
            names: NameRule::Subdomain,
            validate: |_, _| Vec::new(),
            create_on_update: false,
            unconditional: true,
            content: &["spec"],
            status_keeps_metadata: false,
            warning: None,
            validate_status: |_, _| Vec::new(),
        }
    }

    /// A kind that prints its name and age.
    pub(super) const fn plain() -> Self {
        Self::new(&print::NAME_AND_AGE)
    }

    /// Sets which names are allowed.
    pub(super) const fn names(mut self, rule: NameRule) -> Self {
        self.names = rule;
        self
    }

    pub(super) const fn checks(mut self, validate: Validate) -> Self {
        self.validate = validate;
        self
    }

    /// Sets the validation of writes to `/status`, given the object before.
    pub(super) const fn checks_status(mut self, validate: ValidateStatus) -> Self {
        self.validate_status = validate;
        self
    }

    pub(super) const fn create_on_update(mut self) -> Self {
        self.create_on_update = true;
        self
    }

    /// Requires the resourceVersion in a PUT.
    pub(super) const fn conditional(mut self) -> Self {
        self.unconditional = false;
        self
    }

    /// Sets the fields whose change increases the generation; the default is `spec`.
    pub(super) const fn content(mut self, fields: &'static [&'static str]) -> Self {
        self.content = fields;
        self
    }

    /// A write to `/status` leaves labels, annotations, owners and finalizers as they are.
    pub(super) const fn status_keeps_metadata(mut self) -> Self {
        self.status_keeps_metadata = true;
        self
    }

    /// Adds a warning to the response to every request.
    pub(super) const fn warns(mut self, text: &'static str) -> Self {
        self.warning = Some(text);
        self
    }
}

impl Strategy for Simple {
    fn spec_changed(&self, new: &Value, old: &Value) -> bool {
        self.content.iter().any(|path| new.at(path) != old.at(path))
    }

    fn prepare_subresource_update(&self, _: &Cx<'_>, sub: Subresource, new: &mut Value, old: &Value) {
        if self.status_keeps_metadata && sub == Subresource::Status {
            super::restore_user_metadata(new, old);
        }
    }

    fn name_rule(&self) -> NameRule {
        self.names
    }

    fn validate_create(&self, object: &Value) -> Vec<Cause> {
        (self.validate)(object, None)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        (self.validate)(new, Some(old))
    }

    fn validate_subresource_update(&self, sub: Subresource, new: &Value, old: &Value) -> Vec<Cause> {
        if sub == Subresource::Status { (self.validate_status)(new, old) } else { Vec::new() }
    }

    fn deprecated(&self) -> Option<&str> {
        self.warning
    }

    fn allow_create_on_update(&self) -> bool {
        self.create_on_update
    }

    fn allow_unconditional_update(&self) -> bool {
        self.unconditional
    }

    fn columns(&self) -> &'static [Column] {
        self.print.columns
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.print.row(object, now)
    }
}
