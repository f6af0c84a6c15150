//! An HTTP server that speaks DynamoDB's protocol and gets its responses from a function.

use std::{collections::HashMap, sync::Arc};

use nagaya_store::{KeySchema, TableSpec};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// What the server sends back; `None`: nothing.
pub(crate) type Response = Option<Result<Value, Failure>>;

/// An error response.
pub(crate) struct Failure {
    pub(crate) status: &'static str,
    pub(crate) code: &'static str,
}

/// Starts a server that answers each operation with what the function gives for its body, and returns its address.
pub(crate) async fn start(respond: impl Fn(&str, &Value) -> Response + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("the port is bound"));
    let respond = Arc::new(respond);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection, Arc::clone(&respond)));
        }
    });
    endpoint
}

/// The response to `DescribeTable`, or to `DescribeTimeToLive` for a table without expiry.
pub(crate) fn describe(operation: &str, table: &TableSpec) -> Option<Value> {
    match operation {
        "DescribeTable" => Some(json!({ "Table": description(table) })),
        "DescribeTimeToLive" => Some(json!({ "TimeToLiveDescription": { "TimeToLiveStatus": "DISABLED" } })),
        _ => None,
    }
}

/// A table as `DescribeTable` shows it.
pub(crate) fn description(table: &TableSpec) -> Value {
    let elements = |key: &KeySchema| {
        json!([
            { "AttributeName": key.partition.0, "KeyType": "HASH" }, { "AttributeName": key.sort.0, "KeyType": "RANGE" },
        ])
    };
    let keys = table.indexes.iter().map(|index| &index.key).chain([&table.key]);
    let names = keys.flat_map(|key| [&key.partition.0, &key.sort.0]);
    let indexes = table
        .indexes
        .iter()
        .map(|index| json!({ "IndexName": index.name, "IndexStatus": "ACTIVE", "KeySchema": elements(&index.key) }));
    json!({
        "TableName": table.name,
        "TableStatus": "ACTIVE",
        "KeySchema": elements(&table.key),
        "AttributeDefinitions": names.map(|name| json!({ "AttributeName": name, "AttributeType": "S" })).collect::<Value>(),
        "GlobalSecondaryIndexes": indexes.collect::<Value>(),
    })
}

/// Answers the requests of a connection.
async fn serve(mut connection: TcpStream, respond: Arc<impl Fn(&str, &Value) -> Response>) {
    let mut read = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            let mut more = [0; 4096];
            match connection.read(&mut more).await {
                Ok(0) | Err(_) => return,
                Ok(count) => read.extend_from_slice(&more[..count]),
            }
        };
        let text = String::from_utf8_lossy(&read[..head]).into_owned();
        let headers: HashMap<String, &str> = text
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value))
            .collect();
        let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = read.split_off(head);
        while body.len() < length {
            let mut more = [0; 4096];
            let Ok(count) = connection.read(&mut more).await else { return };
            body.extend_from_slice(&more[..count]);
        }
        // The header has the API version in front of the operation: `DynamoDB_20120810.Query`.
        let target = headers.get("x-amz-target").and_then(|target| target.split_once('.'));
        let operation = target.map_or("", |(_, operation)| operation);
        let asked = serde_json::from_slice(&body[..length]).unwrap_or(Value::Null);
        read = body.split_off(length);
        let (status, answer) = match respond(operation, &asked) {
            None => continue,
            Some(Ok(answer)) => ("200 OK", answer),
            Some(Err(Failure { status, code })) => {
                (status, json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{code}") }))
            }
        };
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        if connection.write_all((head + &answer).as_bytes()).await.is_err() {
            return;
        }
    }
}
