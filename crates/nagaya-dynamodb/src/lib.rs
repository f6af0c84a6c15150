//! The DynamoDB engine: the store port on DynamoDB, DynamoDB Local and DynamoDB-compatible clusters.

mod engine;

pub use self::engine::Dynamodb;
