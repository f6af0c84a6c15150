//! A system: a design, and what is particular about it.

use std::{fmt, sync::Arc};

use nagaya_design::Design;
use nagaya_events::Projection;
use nagaya_seed::Seeder;
use nagaya_tenancy::{Error, Nagaya};

use crate::{Extension, Later, extension::Plain, smoke::SmokeTest};

/// Brings everything that a system derives from changes, except projections, up to date with the store.
pub type CatchUp = for<'a> fn(&'a Nagaya) -> Later<'a, Result<(), Error>>;

/// A design and what is particular about it, under a name.
#[derive(Clone)]
pub struct System {
    /// Its name: what its tokens are for, and where it is served beside others.
    pub name: String,
    /// Its design.
    pub design: Design,
    /// What is built from the events of its aggregates.
    pub projections: Vec<Arc<dyn Projection>>,
    /// Sample data that plain items could not give, in this order.
    pub seeders: Vec<Arc<dyn Seeder>>,
    /// An end-to-end check of its API.
    pub smoke_test: Option<SmokeTest>,
    /// What brings derived data other than projections up to date.
    pub catch_up: Option<CatchUp>,
    pub(crate) extension: Arc<dyn Extension>,
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "System({})", self.name)
    }
}

impl System {
    /// A system that is its design and nothing else, under the design's name.
    pub fn plain(design: Design) -> Self {
        System::new(design.name.clone(), design, Plain)
    }

    /// The same under another name.
    pub fn named(name: impl Into<String>, design: Design) -> Self {
        System::new(name, design, Plain)
    }

    /// A system with something particular about it.
    pub fn new(name: impl Into<String>, design: Design, extension: impl Extension) -> Self {
        System {
            name: name.into(),
            design,
            projections: Vec::new(),
            seeders: Vec::new(),
            smoke_test: None,
            catch_up: None,
            extension: Arc::new(extension),
        }
    }
}
