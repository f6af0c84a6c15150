//! The names of the tenants that get data.

use nagaya_design::{Design, Field};

use super::value::fits;

/// Names that fit the tenant field of every entity, as many as wanted if there are so many. The first one is the tenant of the
/// token that `nagaya serve` prints.
pub(crate) fn names(design: &Design, count: usize) -> Vec<String> {
    let fields: Vec<_> =
        design.entities.iter().filter_map(|entity| entity.field(entity.implied_tenant(entity.wall)?)).collect();
    let takes = |name: &String| {
        design.tenant.system.as_ref() != Some(name) && fields.iter().all(|field| fits(field, &name.as_str().into()))
    };
    let mut names: Vec<String> = Vec::new();
    for n in 1..=count {
        let name = tries(&fields, n).into_iter().filter(|name| !names.contains(name)).find(takes);
        names.extend(name);
    }
    names
}

/// Candidates for the name of the n-th tenant.
fn tries(fields: &[&Field], n: usize) -> Vec<String> {
    let (plain, short) = match n {
        1 => ("demo".to_owned(), "demo".to_owned()),
        _ => (format!("tenant-{n}"), format!("demo-{n}")),
    };
    let mut tries = vec![plain];
    tries.extend(fields.iter().map(|field| format!("{}{short}", field.prefix())));
    if n == 1 {
        tries.extend(fields.iter().filter_map(|field| field.example().as_str().map(str::to_owned)));
    }
    // Ids of a fixed form, where a name does not fit.
    for form in [short.replace('-', ""), format!("{n:026}"), format!("00000000-0000-4000-8000-{n:012}")] {
        tries.extend(fields.iter().map(|field| format!("{}{form}", field.prefix())));
    }
    tries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_design() {
        let names = |system: &str| {
            let design = crate::systems::find(system, &crate::systems::Resources::default())
                .expect("sound")
                .expect("built in")
                .design;
            names(&design, 3)
        };
        assert_eq!(names("aiagent"), ["demo", "tenant-2", "tenant-3"]);
        assert_eq!(names("management"), ["tenant_demo", "tenant_demo-2", "tenant_demo-3"]);
    }
}
