//! The engine: its clients and the port.

/// A store on DynamoDB.
#[derive(Debug)]
pub struct Dynamodb;
