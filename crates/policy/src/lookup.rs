//! Rows of a table by their names.

/// The rows of a table that have these names, `all` being all of them; an error lists what there is.
pub fn rows_named<T: Copy>(
    names: &[String],
    table: &[T],
    name_of: fn(&T) -> &'static str,
    what: &str,
) -> Result<Vec<T>, String> {
    if names.iter().any(|name| name == "all") {
        return Ok(table.to_vec());
    }
    let one = |name: &String| {
        table.iter().find(|row| name_of(row) == name).copied().ok_or_else(|| {
            let known: Vec<&str> = table.iter().map(name_of).collect();
            format!("there is no {what} `{name}`; there are {}", known.join(", "))
        })
    };
    names.iter().map(one).collect()
}
