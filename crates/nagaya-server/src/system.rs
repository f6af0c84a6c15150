//! A system: a design and its extension, under a name.

use std::{fmt, sync::Arc};

use nagaya_design::Design;
use nagaya_events::{Error, Processor, ProcessorOptions, Projection};
use nagaya_seed::Seeder;
use nagaya_tenancy::{ChangeConsumer, Nagaya};

use crate::{
    CustomRoute, Extension,
    extension::NoExtension,
    route::{CustomRouteId, Operation, Route, positional, routes},
    smoke::SmokeTest,
};

/// A design and its extension, under a name.
#[derive(Clone)]
pub struct System {
    /// Its name: the audience of its tokens, and its path beside other systems.
    pub name: String,
    /// Its design.
    pub design: Design,
    /// What is built from the events of its aggregates.
    pub projections: Vec<Arc<dyn Projection>>,
    /// Sample data that plain items could not give, in this order.
    pub seeders: Vec<Arc<dyn Seeder>>,
    /// An end-to-end check of its API.
    pub smoke_test: Option<SmokeTest>,
    pub(crate) extension: Arc<dyn Extension>,
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "System({})", self.name)
    }
}

impl System {
    /// A system without an extension, under the design's name.
    pub fn plain(design: Design) -> Self {
        System::new(design.name.clone(), design, NoExtension)
    }

    /// A system without an extension, under another name.
    pub fn named(name: impl Into<String>, design: Design) -> Self {
        System::new(name, design, NoExtension)
    }

    /// A system with an extension.
    pub fn new(name: impl Into<String>, design: Design, extension: impl Extension) -> Self {
        System {
            name: name.into(),
            design,
            projections: Vec::new(),
            seeders: Vec::new(),
            smoke_test: None,
            extension: Arc::new(extension),
        }
    }

    /// What keeps its derived data up to date with changes: a processor for each projection, and the consumers of the extension.
    pub fn consumers(&self, nagaya: &Nagaya) -> Result<Vec<Arc<dyn ChangeConsumer>>, Error> {
        let mut consumers: Vec<Arc<dyn ChangeConsumer>> = Vec::new();
        for projection in &self.projections {
            consumers.push(Arc::new(Processor::new(nagaya, Arc::clone(projection), ProcessorOptions::default())?));
        }
        consumers.extend(self.extension.consumers(nagaya));
        Ok(consumers)
    }

    /// The routes that it serves: those of the extension, and those of the design that they do not replace.
    pub fn served_routes(&self) -> Vec<Arc<Route>> {
        self.routes().0
    }

    /// The same, with what the extension says about its own.
    pub(crate) fn routes(&self) -> (Vec<Arc<Route>>, Vec<CustomRoute>) {
        let custom = self.extension.routes();
        let route = |(at, route): (usize, &CustomRoute)| Route {
            method: route.method.clone(),
            path: format!("{}{}", self.design.http_prefix, route.path),
            operation: Operation::Custom(CustomRouteId(at)),
            required_caller: route.caller,
        };
        let mut all: Vec<Route> = custom.iter().enumerate().map(route).collect();
        let is_same = |a: &Route, b: &Route| a.method == b.method && positional(&a.path) == positional(&b.path);
        let derived = routes(&self.design).into_iter();
        let derived: Vec<_> = derived.filter(|derived| !all.iter().any(|custom| is_same(custom, derived))).collect();
        all.extend(derived);
        (all.into_iter().map(Arc::new).collect(), custom)
    }
}
