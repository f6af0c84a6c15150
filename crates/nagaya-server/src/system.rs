//! A system: a design and its extension, under a name.

use std::{fmt, sync::Arc};

use nagaya_design::Design;
use nagaya_events::Projection;
use nagaya_seed::Seeder;
use nagaya_tenancy::{Error, Nagaya};

use crate::{
    CustomRoute, Extension, ExtensionFuture,
    extension::NoExtension,
    route::{CustomRouteId, Operation, Route, positional, routes},
    smoke::SmokeTest,
};

/// Brings everything that a system derives from changes, except projections, up to date with the store.
pub type CatchUp = for<'a> fn(&'a Nagaya) -> ExtensionFuture<'a, Result<(), Error>>;

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
            catch_up: None,
            extension: Arc::new(extension),
        }
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
