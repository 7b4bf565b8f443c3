//! What the launchers of kernels check, read from the kernels' sources.
//!
//! `#[kernel(requires(…))]`, `block = …` and `bounds(…)` say it, and the types of a safe kernel's parameters: `toolchain/device/macros` makes
//! the checks of them. Requirements that are not understood are left out: the proof then assumes less.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{BinOp, Expr, FnArg, Ident, Item, ItemFn, Lit, Meta, Pat, Token, Type, bracketed, parenthesized, token};

use crate::shape::{Extent, Inequality, Shape};
use warpkov_build::ptx::Entry;

/// The sources of kernels.
#[derive(Default)]
pub struct Sources {
    /// Each with the number of its file.
    kernels: Vec<(usize, ItemFn)>,
    structs: HashMap<String, syn::ItemStruct>,
    /// By the number of the file, and by name.
    constants: HashMap<String, HashMap<usize, Expr>>,
}

/// An argument of `#[kernel]`.
enum KernelArgument {
    Values(Ident, Vec<Expr>),
    Requires(Vec<Expr>),
    Block(Expr),
    Threads(Expr),
    Safe,
    Other,
}

impl Parse for KernelArgument {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse::<Ident>()?;
        if input.peek(token::Paren) {
            let content;
            parenthesized!(content in input);
            let list = Punctuated::<Expr, Token![,]>::parse_terminated(&content)?;
            return Ok(match name.to_string().as_str() {
                "requires" => Self::Requires(list.into_iter().collect()),
                "bounds" => match list.into_iter().next() {
                    Some(Expr::Assign(assign)) => Self::Threads(*assign.right),
                    _ => Self::Other,
                },
                _ => Self::Other,
            });
        }
        if !input.peek(Token![=]) {
            return Ok(if name == "safe" { Self::Safe } else { Self::Other });
        }
        input.parse::<Token![=]>()?;
        if input.peek(token::Bracket) {
            let content;
            bracketed!(content in input);
            let values = Punctuated::<Expr, Token![,]>::parse_terminated(&content)?;
            return Ok(Self::Values(name, values.into_iter().collect()));
        }
        let value = input.parse::<Expr>()?;
        Ok(if name == "block" { Self::Block(value) } else { Self::Other })
    }
}

impl Sources {
    /// Reads the Rust files below a folder.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let mut sources = Self::default();
        let (mut open, mut file) = (vec![folder.to_owned()], 0);
        while let Some(path) = open.pop() {
            let error = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            if path.is_dir() {
                for item in fs::read_dir(&path).map_err(|e| error(&e))? {
                    open.push(item.map_err(|e| error(&e))?.path());
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).map_err(|e| error(&e))?;
                file += 1;
                sources.add(file, syn::parse_file(&text).map_err(|e| error(&e))?.items);
            }
        }
        Ok(sources)
    }

    fn add(&mut self, file: usize, items: Vec<Item>) {
        for item in items {
            match item {
                Item::Fn(function) if attribute(&function).is_some() => self.kernels.push((file, function)),
                Item::Const(constant) => {
                    self.constants.entry(constant.ident.to_string()).or_default().insert(file, *constant.expr);
                }
                Item::Struct(fields) => {
                    self.structs.insert(fields.ident.to_string(), fields);
                }
                Item::Mod(module) => self.add(file, module.content.map(|(_, items)| items).unwrap_or_default()),
                _ => {}
            }
        }
    }

    /// For each kernel's name, the names of its entry points.
    pub fn kernels(&self) -> BTreeMap<String, Vec<String>> {
        let named = |(_, kernel): &(usize, ItemFn)| {
            (kernel.sig.ident.to_string(), instances(kernel).into_iter().map(|(name, _)| name).collect())
        };
        self.kernels.iter().map(named).collect()
    }

    /// The shape that the launcher of an entry point checks.
    pub fn shape(&self, entry: &Entry<'_>) -> Shape {
        let mut shape = Shape::any(entry);
        for (file, kernel) in &self.kernels {
            let Some((_, generics)) = instances(kernel).into_iter().find(|(name, _)| name == entry.name) else {
                continue;
            };
            self.apply(*file, kernel, generics, &mut shape);
        }
        shape
    }

    fn apply(&self, file: usize, kernel: &ItemFn, generics: HashMap<String, i128>, shape: &mut Shape) {
        let mut reader = Reader {
            sources: self,
            file,
            generics,
            parameters: HashMap::new(),
            of_structs: Vec::new(),
            within: String::new(),
        };
        let mut at = Some(0);
        let mut dimensions = 3;
        let mut safe = false;
        let arguments = arguments(kernel);
        for input in &kernel.sig.inputs {
            let FnArg::Typed(input) = input else { continue };
            let name = match &*input.pat {
                Pat::Ident(pattern) => pattern.ident.to_string(),
                _ => String::new(),
            };
            at = at.and_then(|at| reader.place(&name, &input.ty, at, 0));
        }
        for argument in &arguments {
            safe |= matches!(argument, KernelArgument::Safe);
        }
        if safe {
            shape.multiples.insert(Extent::Block(0), 32);
            for input in &kernel.sig.inputs {
                let FnArg::Typed(input) = input else { continue };
                match last(&input.ty).map(|segment| segment.ident.to_string()).as_deref() {
                    Some("Out" | "PerBlock") => dimensions = 1,
                    // Where rows belong to blocks or warps, there is one dimension.
                    Some("Out2") if types_of(&input.ty) > 1 => dimensions = 1,
                    Some("Out2") => dimensions = dimensions.min(2),
                    _ => {}
                }
            }
        }
        let (mut requirements, mut block): (Vec<Expr>, Option<i128>) = (Vec::new(), None);
        for argument in arguments {
            match argument {
                KernelArgument::Requires(list) => requirements.extend(list),
                KernelArgument::Block(value) => block = reader.number(&value),
                KernelArgument::Threads(value) => shape.threads = reader.number(&value).unwrap_or(shape.threads),
                _ => {}
            }
        }
        for requirement in &requirements {
            if let Expr::Binary(comparison) = requirement
                && text(&comparison.left) == "shape.dimensions"
                && let Some(count) = reader.number(&comparison.right)
            {
                dimensions = dimensions.min(u8::try_from(count).unwrap_or(3));
            }
        }
        for axis in dimensions..3 {
            shape.numbers.extend([(Extent::Block(axis), 1), (Extent::Grid(axis), 1)]);
        }
        // An extent of all dimensions is that of the only one.
        if dimensions != 1 {
            shape.multiples.remove(&Extent::Block(0));
        }
        if let Some(block) = block {
            shape.threads = block;
            if dimensions == 1 {
                shape.numbers.insert(Extent::Block(0), block);
            } else {
                let count = (0..dimensions).map(Extent::Block).collect();
                shape.inequalities.push(vec![(count, 1), (Vec::new(), -block)]);
            }
        }
        for requirement in requirements {
            reader.require(&requirement, dimensions, shape);
        }
        for (path, requirement) in std::mem::take(&mut reader.of_structs) {
            reader.within = format!("{path}.");
            reader.require(&requirement, dimensions, shape);
        }
    }
}

/// Reads the requirements of one instance of a kernel.
struct Reader<'a> {
    sources: &'a Sources,
    file: usize,
    generics: HashMap<String, i128>,
    /// The number of each parameter, by its path: `step.window`.
    parameters: HashMap<String, usize>,
    /// The requirements of structs among the parameters, with their paths.
    of_structs: Vec<(String, Expr)>,
    /// The path of the struct whose requirement is read.
    within: String,
}

impl Reader<'_> {
    /// Numbers a parameter of the source from `at` on. Returns the next number, or `None` if the type is not known.
    fn place(&mut self, path: &str, ty: &Type, at: usize, depth: usize) -> Option<usize> {
        let name = last(ty)?.ident.to_string();
        let count = match name.as_str() {
            "u8" | "i8" | "u16" | "i16" | "u32" | "i32" | "u64" | "i64" | "usize" | "f32" | "f64" | "bool" | "Len" => {
                self.parameters.insert(path.to_owned(), at);
                1
            }
            "Global" | "GlobalMut" | "In" | "Out" | "In2" | "Out2" | "PerBlock" | "PerThread" | "T" | "O" => 1,
            "Atomics" | "Slice" | "SliceMut" => 2,
            _ => {
                let fields = self.sources.structs.get(&name).filter(|_| depth < 4)?;
                for attribute in &fields.attrs {
                    let list = attribute
                        .parse_args_with(Punctuated::<KernelArgument, Token![,]>::parse_terminated)
                        .into_iter()
                        .flatten();
                    for argument in list.filter(|_| attribute.path().is_ident("parameter")) {
                        if let KernelArgument::Requires(list) = argument {
                            self.of_structs.extend(list.into_iter().map(|requirement| (path.to_owned(), requirement)));
                        }
                    }
                }
                let mut at = at;
                for field in &fields.fields {
                    at = self.place(&format!("{path}.{}", field.ident.as_ref()?), &field.ty, at, depth + 1)?;
                }
                return Some(at);
            }
        };
        Some(at + count)
    }

    /// Adds a requirement to the shape. Those of lengths say nothing that the proof uses.
    fn require(&self, requirement: &Expr, dimensions: u8, shape: &mut Shape) {
        if !self.understood(requirement, dimensions, shape) && !is_of_memory(requirement) {
            shape.complete = false;
        }
    }

    fn understood(&self, requirement: &Expr, dimensions: u8, shape: &mut Shape) -> bool {
        let Expr::Binary(comparison) = requirement else { return false };
        let (left, op, right) = (&*comparison.left, &comparison.op, &*comparison.right);
        if let (Expr::Binary(rest), BinOp::Eq(_), Some(0)) = (left, op, self.number(right))
            && matches!(rest.op, BinOp::Rem(_))
            && let (Some(sum), Some(of @ 1..)) = (self.sum(&rest.left, dimensions), self.number(&rest.right))
        {
            if let [(extents, 1)] = sum.as_slice()
                && let [extent] = extents.as_slice()
            {
                shape.multiples.insert(*extent, of);
                return true;
            }
            return false;
        }
        if text(left) == "shape.dimensions" {
            return true;
        }
        if text(left) == "shape.block.x" && text(right) == "shape.block" && matches!(op, BinOp::Eq(_)) {
            shape.numbers.extend([1, 2].map(|axis| (Extent::Block(axis), 1)));
            return true;
        }
        if text(left) == "shape.block"
            && let Some(count) = self.number(right).filter(|_| matches!(op, BinOp::Eq(_) | BinOp::Le(_)))
        {
            shape.threads = shape.threads.min(count.max(1));
        }
        let (Some(a), Some(b)) = (self.sum(left, dimensions), self.sum(right, dimensions)) else { return false };
        if let (BinOp::Eq(_), [(extents, 1)], Some(value)) = (op, a.as_slice(), self.number(right))
            && let [extent] = extents.as_slice()
        {
            shape.numbers.insert(*extent, value);
            return true;
        }
        if text(left) == "shape.grid" && matches!(op, BinOp::Eq(_)) && self.number(right) == Some(1) {
            shape.numbers.extend((0..3).map(|axis| (Extent::Grid(axis), 1)));
            return true;
        }
        let difference = |a: &Inequality, b: &Inequality, free: i128| {
            let negative = b.iter().map(|(extents, value)| (extents.clone(), -value));
            a.iter().cloned().chain(negative).chain([(Vec::new(), free)]).collect::<Inequality>()
        };
        match op {
            BinOp::Ge(_) => shape.inequalities.push(difference(&a, &b, 0)),
            BinOp::Gt(_) => shape.inequalities.push(difference(&a, &b, -1)),
            BinOp::Le(_) => shape.inequalities.push(difference(&b, &a, 0)),
            BinOp::Lt(_) => shape.inequalities.push(difference(&b, &a, -1)),
            BinOp::Eq(_) => shape.inequalities.extend([difference(&a, &b, 0), difference(&b, &a, 0)]),
            _ => return false,
        }
        true
    }

    /// The expression as a sum of products.
    fn sum(&self, expr: &Expr, dimensions: u8) -> Option<Inequality> {
        if let Some(value) = self.number(expr) {
            return Some(vec![(Vec::new(), value)]);
        }
        let all = |extent: fn(u8) -> Extent| vec![((0..dimensions).map(extent).collect(), 1)];
        match expr {
            Expr::Paren(inner) => self.sum(&inner.expr, dimensions),
            Expr::Path(_) | Expr::Field(_) => {
                let path = text(expr);
                let axis = |path: &str, of: &str| {
                    path.strip_prefix(of)
                        .and_then(|axis| ["x", "y", "z"].iter().position(|known| *known == axis))
                        .and_then(|axis| u8::try_from(axis).ok())
                };
                if let Some(axis) = axis(&path, "shape.block.") {
                    return Some(vec![(vec![Extent::Block(axis)], 1)]);
                }
                if let Some(axis) = axis(&path, "shape.grid.") {
                    return Some(vec![(vec![Extent::Grid(axis)], 1)]);
                }
                match path.as_str() {
                    "shape.block" => Some(all(Extent::Block)),
                    "shape.grid" => Some(all(Extent::Grid)),
                    path => self
                        .parameters
                        .get(&format!("{}{path}", self.within))
                        .map(|&at| vec![(vec![Extent::Parameter(at)], 1)]),
                }
            }
            Expr::Binary(both) => {
                let (a, b) = (self.sum(&both.left, dimensions)?, self.sum(&both.right, dimensions)?);
                match both.op {
                    BinOp::Add(_) => Some([a, b].concat()),
                    BinOp::Mul(_) => Some(
                        a.iter()
                            .flat_map(|(one, x)| {
                                b.iter().map(move |(two, y)| ([one.as_slice(), two].concat(), x.saturating_mul(*y)))
                            })
                            .collect(),
                    ),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The value of a constant expression.
    fn number(&self, expr: &Expr) -> Option<i128> {
        self.value(expr, 0)
    }

    fn value(&self, expr: &Expr, depth: usize) -> Option<i128> {
        if depth > 16 {
            return None;
        }
        let value = |expr: &Expr| self.value(expr, depth + 1);
        match expr {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => number.base10_parse().ok(),
                Lit::Bool(flag) => Some(flag.value.into()),
                _ => None,
            },
            Expr::Paren(inner) => value(&inner.expr),
            Expr::Cast(cast) => value(&cast.expr),
            Expr::Path(path) => {
                let name = path.path.segments.last()?.ident.to_string();
                match self.generics.get(&name) {
                    Some(known) => Some(*known),
                    None => {
                        // That of the same file, or the only one.
                        let known = self.sources.constants.get(&name)?;
                        let only = known.values().next().filter(|_| known.len() == 1);
                        self.value(known.get(&self.file).or(only)?, depth + 1)
                    }
                }
            }
            Expr::Binary(both) => {
                let (a, b) = (value(&both.left)?, value(&both.right)?);
                match both.op {
                    BinOp::Add(_) => a.checked_add(b),
                    BinOp::Sub(_) => a.checked_sub(b).filter(|value| *value >= 0),
                    BinOp::Mul(_) => a.checked_mul(b),
                    BinOp::Div(_) => a.checked_div(b),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Whether a requirement is one of lengths or of bytes.
fn is_of_memory(expr: &Expr) -> bool {
    match expr {
        Expr::Binary(both) => is_of_memory(&both.left) || is_of_memory(&both.right),
        Expr::Paren(inner) => is_of_memory(&inner.expr),
        Expr::MethodCall(call) => {
            ["len", "below", "rows", "columns"].iter().any(|known| call.method == known) || is_of_memory(&call.receiver)
        }
        Expr::Field(_) => text(expr) == "shape.shared",
        _ => false,
    }
}

fn attribute(function: &ItemFn) -> Option<&syn::Attribute> {
    function.attrs.iter().find(|attribute| attribute.path().segments.last().is_some_and(|last| last.ident == "kernel"))
}

fn arguments(function: &ItemFn) -> Vec<KernelArgument> {
    let list = attribute(function).filter(|attribute| matches!(attribute.meta, Meta::List(_)));
    let parsed =
        list.and_then(|list| list.parse_args_with(Punctuated::<KernelArgument, Token![,]>::parse_terminated).ok());
    parsed.into_iter().flatten().collect()
}

/// The entry points of a kernel, each with the values of its generic parameters that are numbers.
fn instances(function: &ItemFn) -> Vec<(String, HashMap<String, i128>)> {
    let mut found = vec![(function.sig.ident.to_string(), HashMap::new())];
    for argument in arguments(function) {
        let KernelArgument::Values(name, values) = argument else { continue };
        let mut next = Vec::new();
        for (start, generics) in &found {
            for value in &values {
                let mut generics = generics.clone();
                let number = text(value);
                if let Some(number) = number.parse().ok().or_else(|| number.parse::<bool>().ok().map(i128::from)) {
                    generics.insert(name.to_string(), number);
                }
                next.push((format!("{start}_{number}"), generics));
            }
        }
        found = next;
    }
    found
}

/// The number of types among a type's arguments.
fn types_of(ty: &Type) -> usize {
    match last(ty).map(|segment| &segment.arguments) {
        Some(syn::PathArguments::AngleBracketed(list)) => {
            list.args.iter().filter(|argument| matches!(argument, syn::GenericArgument::Type(_))).count()
        }
        _ => 0,
    }
}

fn last(ty: &Type) -> Option<&syn::PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

/// The text of a path, of a field or of a literal.
fn text(expr: &Expr) -> String {
    match expr {
        Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default(),
        Expr::Field(field) => match &field.member {
            syn::Member::Named(name) => format!("{}.{name}", text(&field.base)),
            syn::Member::Unnamed(_) => String::new(),
        },
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_digits().to_owned(),
            Lit::Bool(flag) => flag.value.to_string(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}
