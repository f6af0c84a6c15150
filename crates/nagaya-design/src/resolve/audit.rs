//! The audit: its entity and the fields of its entries.

use super::Resolver;
use crate::{
    audit::{Audit, AuditPart},
    design::Design,
    tree::Node,
};

impl Resolver<'_> {
    pub(super) fn audit(&mut self, node: &Node, design: &Design) -> Option<Audit> {
        let names = design.entities.iter().map(|entity| entity.name.as_str());
        let entity = self.resolve("entity", &node.text("entity")?, names, "entity")?;
        let fields = AuditPart::ALL.into_iter().filter_map(|part| Some((part, node.text(part.name())?))).collect();
        Some(Audit::new(entity, fields))
    }
}
