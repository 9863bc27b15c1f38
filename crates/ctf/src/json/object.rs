//! An object's properties; errors name them.

use serde_json::{Map, Value};

/// An object. Properties that nobody asks for are ignored, as CTF 2 demands.
#[derive(Clone, Copy)]
pub(super) struct Object<'a>(&'a Map<String, Value>);

impl<'a> Object<'a> {
    /// An object without extensions.
    ///
    /// # Errors
    /// When it has some: an extension may change the meaning of anything.
    pub fn new(map: &'a Map<String, Value>) -> Result<Self, String> {
        match map.get("extensions") {
            None => Ok(Self(map)),
            Some(Value::Object(extensions)) => match first_extension(extensions) {
                None => Ok(Self(map)),
                Some(name) => Err(format!("it needs the extension {}, which is not read", quoted(name))),
            },
            Some(_) => Err("its `extensions` are not an object".to_owned()),
        }
    }

    /// An object with this meaning, without extensions.
    pub fn of(value: &'a Value, meaning: &str) -> Result<Self, String> {
        Self::new(value.as_object().ok_or_else(|| format!("{meaning} is not an object"))?)
    }

    pub fn value(self, key: &str) -> Option<&'a Value> {
        self.0.get(key)
    }

    pub fn needed(self, key: &str) -> Result<&'a Value, String> {
        self.value(key).ok_or_else(|| format!("it has no `{key}`"))
    }

    pub fn text(self, key: &str) -> Result<Option<&'a str>, String> {
        let text = |value: &'a Value| value.as_str().ok_or_else(|| format!("its `{key}` is not a text"));
        self.value(key).map(text).transpose()
    }

    pub fn needed_text(self, key: &str) -> Result<&'a str, String> {
        self.needed(key)?;
        Ok(self.text(key)?.unwrap_or_default())
    }

    pub fn number(self, key: &str) -> Result<Option<u64>, String> {
        let number =
            |value: &Value| value.as_u64().ok_or_else(|| format!("its `{key}` is not a number from 0 up"));
        self.value(key).map(number).transpose()
    }

    pub fn needed_number(self, key: &str) -> Result<u64, String> {
        self.needed(key)?;
        Ok(self.number(key)?.unwrap_or_default())
    }

    pub fn array(self, key: &str) -> Result<Option<&'a [Value]>, String> {
        let array = |value: &'a Value| value.as_array().ok_or_else(|| format!("its `{key}` is not an array"));
        Ok(self.value(key).map(array).transpose()?.map(Vec::as_slice))
    }

    pub fn map(self, key: &str) -> Result<Option<&'a Map<String, Value>>, String> {
        let map = |value: &'a Value| value.as_object().ok_or_else(|| format!("its `{key}` is not an object"));
        self.value(key).map(map).transpose()
    }
}

/// An extension's `namespace/name`, or the namespace alone.
fn first_extension(extensions: &Map<String, Value>) -> Option<&str> {
    let (namespace, names) = extensions.iter().next()?;
    names.as_object().and_then(|names| names.keys().next()).or(Some(namespace)).map(String::as_str)
}

/// A uuid: 16 bytes as numbers.
pub(super) fn uuid(value: &Value) -> Option<[u8; 16]> {
    let bytes = value.as_array()?.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()));
    bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// A name for an error: its beginning, without control characters.
pub(super) fn quoted(name: &str) -> String {
    const MAX_SHOWN: usize = 80;
    let mut shown: String = name.chars().take(MAX_SHOWN).flat_map(char::escape_debug).collect();
    if name.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}
