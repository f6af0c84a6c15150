//! The output of the commands. A running server sends JSON, so the text is rendered from that JSON.

use std::{fmt::Write as _, path::Path};

use nagaya_embedded::{BackupSummary, EncryptionState, Finding, RestoreSummary, StoreStats};
use serde_json::{Value as Json, json};

use crate::output::instant;

pub(crate) fn stats_json(stat: &StoreStats) -> Json {
    let tables: Vec<_> = stat
        .tables
        .iter()
        .map(|table| {
            let indexes: serde_json::Map<_, _> =
                table.indexes.iter().map(|(name, entries)| (name.clone(), (*entries).into())).collect();
            json!({
                "name": table.name,
                "items": table.items,
                "itemBytes": table.item_bytes,
                "indexes": indexes,
                "changes": table.changes,
                "oldestChange": table.oldest_change.map(instant),
            })
        })
        .collect();
    json!({
        "format": stat.format,
        "diskBytes": stat.disk_bytes,
        "contentHash": stat.content_hash,
        "encryption": stat.encryption.as_ref().map(encryption_json),
        "tables": tables,
    })
}

pub(super) fn store_stat_text(stat: &Json) -> String {
    let number = |value: &Json| value.as_u64().unwrap_or(0);
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let mut out = format!(
        "format {}, {} on disk\ncontent {}\n",
        number(&stat["format"]),
        byte_count_text(number(&stat["diskBytes"])),
        text(&stat["contentHash"])
    );
    out.push_str(&encryption_text(&stat["encryption"]));
    // Writing to a string does not fail.
    for table in stat["tables"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "{}", text(&table["name"]));
        let _ = writeln!(out, "  {} items, {}", number(&table["items"]), byte_count_text(number(&table["itemBytes"])));
        for (name, entries) in table["indexes"].as_object().into_iter().flatten() {
            let _ = writeln!(out, "  {} entries in {name}", number(entries));
        }
        let since = table["oldestChange"].as_str().map_or_else(String::new, |oldest| format!(" since {oldest}"));
        let _ = writeln!(out, "  {} changes{since}", number(&table["changes"]));
    }
    out
}

pub(crate) fn encryption_json(state: &EncryptionState) -> Json {
    let progress = state.progress.map(|progress| json!({ "done": progress.done, "total": progress.total }));
    json!({ "keyId": state.key_id, "progress": progress })
}

/// The key of a store in one line, and how far values are encrypted with it.
pub(super) fn encryption_text(state: &Json) -> String {
    let Some(key) = state["keyId"].as_str() else { return "not encrypted\n".to_owned() };
    match (state["progress"]["done"].as_u64(), state["progress"]["total"].as_u64()) {
        (Some(done), Some(total)) => format!("encrypted with the key {key}: {done} of about {total} values so far\n"),
        _ => format!("encrypted with the key {key}\n"),
    }
}

pub(crate) fn findings_json(findings: &[Finding]) -> Json {
    let finding = |each: &Finding| json!({ "table": each.table, "problem": each.problem, "count": each.count });
    let listed: Vec<_> = findings.iter().map(finding).collect();
    json!({ "ok": findings.is_empty(), "findings": listed })
}

/// Adds what was found elsewhere.
pub(super) fn add_findings(found: &mut Json, more: &[Finding]) {
    let Json::Object(more) = findings_json(more) else { return };
    if let (Some(Json::Array(listed)), Some(Json::Array(more))) = (found.get_mut("findings"), more.get("findings")) {
        listed.extend(more.iter().cloned());
        let is_fine = listed.is_empty();
        found["ok"] = is_fine.into();
    }
}

/// How many findings there are, with those that are only counted.
pub(super) fn findings_count(found: &Json) -> u64 {
    let listed = found["findings"].as_array().into_iter().flatten();
    listed.map(|each| each["count"].as_u64().unwrap_or(1)).sum()
}

pub(super) fn findings_text(found: &Json) -> String {
    if found["ok"] == true {
        return "no problems found\n".to_owned();
    }
    let line = |each: &Json| {
        let text = |name: &str| each[name].as_str().unwrap_or_default();
        match text("table") {
            "" => format!("{}\n", text("problem")),
            table => format!("{table}: {}\n", text("problem")),
        }
    };
    found["findings"].as_array().into_iter().flatten().map(line).collect()
}

pub(super) fn backup_json(made: &BackupSummary, file: &Path) -> Json {
    json!({
        "file": file,
        "id": made.id,
        "parent": made.parent,
        "createdAt": made.at.map(instant),
        "sequence": made.sequence,
        "tables": made.tables,
        "items": made.items,
        "changes": made.changes,
        "objects": made.objects,
        "objectBytes": made.object_bytes,
        "damagedObjects": made.damaged_objects,
        "hasKeys": made.has_keys,
        "contentHash": made.content_hash,
        "keyId": made.key_id,
    })
}

pub(super) fn backup_text(made: &BackupSummary, directory: &str) -> String {
    let kind = if made.parent.is_some() { "incremental" } else { "full" };
    let keys = if made.has_keys { "sealed keys" } else { "no keys" };
    let mut out = format!(
        "{kind}: {} tables, {} items, {} changes, {} objects ({}) and {keys} {directory}\n",
        made.tables,
        made.items,
        made.changes,
        made.objects,
        byte_count_text(made.object_bytes),
    );
    for object in &made.damaged_objects {
        // Writing to a string does not fail.
        let _ = writeln!(out, "damaged: the object `{object}` is not what was written; an older backup may have it");
    }
    if let Some(key) = &made.key_id {
        // Writing to a string does not fail.
        let _ = writeln!(out, "encrypted with the key {key}");
    }
    if let Some(hash) = &made.content_hash {
        // Writing to a string does not fail.
        let _ = writeln!(out, "content {hash}");
    }
    out
}

pub(super) fn restored_json(made: &RestoreSummary, directory: &Path) -> Json {
    json!({
        "directory": directory,
        "tables": made.tables.len(),
        "items": made.items,
        "objects": made.objects,
        "keyFiles": made.keys,
        "sequence": made.sequence,
        "contentHash": made.content_hash,
        "clockWentBack": made.clock_went_back,
    })
}

pub(super) fn restored_text(made: &RestoreSummary, directory: &Path) -> String {
    format!(
        "{} tables, {} items, {} objects and {} key files restored into {}\ncontent {}\n",
        made.tables.len(),
        made.items,
        made.objects,
        made.keys,
        directory.display(),
        made.content_hash
    )
}

pub(super) fn byte_count_text(count: u64) -> String {
    match count {
        0..1_024 => format!("{count} B"),
        1_024..1_048_576 => format!("{:.1} KiB", count as f64 / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", count as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", count as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_that_are_not_listed_one_by_one_count_too() {
        let finding = |problem: &str, count| Finding { table: "notes".to_owned(), problem: problem.to_owned(), count };
        let found = findings_json(&[finding("the expiry of `P/1` is missing", 1), finding("and 5 more", 5)]);
        assert_eq!(findings_count(&found), 6);
        assert_eq!(findings_text(&found), "notes: the expiry of `P/1` is missing\nnotes: and 5 more\n");
        assert_eq!(findings_count(&findings_json(&[])), 0);
    }
}
