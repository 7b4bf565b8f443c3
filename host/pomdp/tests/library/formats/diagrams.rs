//! Decision diagrams of POMDPX.

use warpkov_pomdp::io as formats;
use warpkov_pomdp::io::Format;
use warpkov_pomdp::model::Pomdp;

use super::common::{ROVER, assert_same};
use crate::random::Random;

fn read(text: &str) -> Result<Pomdp, String> {
    formats::read_from(text.as_bytes(), "m", Some(Format::Pomdpx)).map_err(|error| error.to_string())
}

/// The same rover, whose functions are diagrams: variable, or parents of a reward, and diagram.
const DIAGRAMS: [(&str, &str); 7] = [
    ("place_0", r#"<SubDAG type="deterministic" var="place_0" val="s0"/>"#),
    ("rock_0", r#"<SubDAG type="uniform" var="rock_0"/>"#),
    (
        "rock_1",
        r#"<Node var="act"><Edge val="stay"><SubDAG type="persistent" var="rock_1"/></Edge>
        <Edge val="go"><SubDAG type="template" idref="same"/></Edge>
        <Edge val="sample"><Node var="place_0"><Edge val="s0"><SubDAG type="template" idref="same"/></Edge>
        <Edge val="s1"><SubDAG type="deterministic" var="rock_1" val="bad"/></Edge></Node></Edge></Node>"#,
    ),
    (
        "place_1",
        r#"<Node var="act"><Edge val="stay"><SubDAG type="persistent" var="place_1"/></Edge>
        <Edge val="sample"><SubDAG type="persistent" var="place_1"/></Edge>
        <Edge val="go"><Node var="place_1"><Edge val="s1"><Terminal>0.75</Terminal></Edge>
        <Edge val="s0"><Terminal>0.25</Terminal></Edge></Node></Edge></Node>"#,
    ),
    (
        "sensor",
        r#"<Node var="place_1"><Edge val="s1"><SubDAG type="uniform" var="sensor"/></Edge>
        <Edge val="s0"><Node var="rock_1"><Edge val="good"><Node var="sensor"><Edge val="ogood"><Terminal>0.8</Terminal></Edge>
        <Edge val="obad"><Terminal>0.2</Terminal></Edge></Node></Edge>
        <Edge val="bad"><Node var="sensor"><Edge val="ogood"><Terminal>0.2</Terminal></Edge>
        <Edge val="obad"><Terminal>0.8</Terminal></Edge></Node></Edge></Node></Edge></Node>"#,
    ),
    (
        "act place_0 rock_0",
        r#"<Node var="act"><Edge val="sample"><Node var="place_0"><Edge val="s1"><Node var="rock_0">
        <Edge val="good"><Terminal>10</Terminal></Edge><Edge val="bad"><Terminal>-10</Terminal></Edge></Node></Edge></Node></Edge></Node>"#,
    ),
    (
        "act place_1",
        r#"<Node var="act"><Edge val="go"><Node var="place_1"><Edge val="s1"><Terminal>-1</Terminal></Edge></Node></Edge></Node>"#,
    ),
];

/// Parts to which diagrams refer.
const TEMPLATES: &str = r#"<SubDAGTemplate id="other"><Node var="act"/></SubDAGTemplate>
    <SubDAGTemplate id="same"><Node var="rock_0"><Edge val="good"><SubDAG type="persistent" var="rock_1"/></Edge>
    <Edge val="bad"><Node var="rock_1"><Edge val="bad"><Terminal> 1 </Terminal></Edge></Node></Edge></Node></SubDAGTemplate>"#;

/// The rover with all its functions as diagrams.
fn drawn() -> String {
    let mut text = ROVER.to_owned();
    for (name, diagram) in DIAGRAMS {
        let place = ["Var", "Parent"].map(|tag| format!("<{tag}>{name}</{tag}>"));
        let of_function = |place: &String| if name.contains(' ') { text.rfind(place) } else { text.find(place) };
        let at = place.iter().find_map(of_function).expect("a function");
        let begin = at + text[at..].find("<Parameter").expect("a parameter");
        let end = at + text[at..].find("</Parameter>").expect("its end");
        text.replace_range(begin..end, &format!("<Parameter type=\"DD\"><DAG>{diagram}</DAG>{TEMPLATES}"));
    }
    assert!(!text.contains("<Entry>"));
    text
}

#[test]
fn diagrams_are_those_of_tables() {
    assert_same(&read(&drawn()).unwrap(), &read(ROVER).unwrap(), "diagrams");
}

#[test]
fn errors_of_diagrams_name_their_cause() {
    for (from, to, message) in [
        ("val=\"s0\"/>", "val=\"s2\"/>", "\"s2\" is no value of place_0"),
        ("val=\"s0\"/>", "/>", "<SubDAG> has no attribute val"),
        ("type=\"uniform\" var=\"rock_0\"", "type=\"even\" var=\"rock_0\"", "a <SubDAG> of type \"even\", expected"),
        (
            "type=\"uniform\" var=\"rock_0\"",
            "type=\"persistent\" var=\"rock_0\"",
            "only a state variable whose previous",
        ),
        ("type=\"uniform\" var=\"rock_0\"", "type=\"uniform\" var=\"act\"", "act is neither <Var> nor a <Parent>"),
        ("idref=\"same\"", "idref=\"none\"", "no <SubDAGTemplate> has the id \"none\""),
        ("<Node var=\"act\"/>", "", "<SubDAGTemplate> has no <Node>"),
        ("<Node var=\"rock_1\">", "<Node var=\"rock_0\">", "a path meets rock_0 twice"),
        ("<Edge val=\"bad\"><Node", "<Edge val=\"good\"><Node", "a second edge of this value"),
        ("<Terminal> 1 </Terminal>", "", "<Edge> has 0 elements, expected a <Node>"),
        ("<Terminal> 1 </Terminal>", "<Terminal>x</Terminal>", "found `x`, expected a number"),
        ("<Terminal> 1 </Terminal>", "<Leaf/>", "found <Leaf>, expected a <Node>"),
        ("<Terminal> 1 </Terminal>", "<SubDAG type=\"template\" idref=\"same\"/>", "a path meets rock_0 twice"),
        (
            "<Terminal>0.75<",
            "<Terminal>0.5<",
            "the probabilities of place_1 given act = go, place_0 = s0 are [0.25, 0.5]",
        ),
        ("<DAG>", "<DAG/><DAG>", "<DAG> has 0 elements, expected a <Node>"),
        ("type=\"DD\"", "type=\"ADD\"", "a parameter of type \"ADD\", expected \"TBL\" or \"DD\""),
    ] {
        // The template that nothing refers to is not read.
        let text =
            if from.starts_with("<Node var=\"act\"/>") { drawn().replace("\"same\"", "\"other\"") } else { drawn() };
        assert!(text.contains(from), "{from}");
        let error = read(&text.replace(from, to)).err().unwrap_or_else(|| panic!("{from} to {to} is read"));
        assert!(error.starts_with("m:") && error.contains(message), "{from} to {to}: {error}");
    }
}

/// Names and numbers of values of the variables: an action, states before, states after, an observation.
const VARIABLES: [(&str, usize); 6] = [("act", 2), ("x_0", 3), ("y_0", 2), ("x_1", 3), ("y_1", 2), ("seen", 2)];

fn value(variable: usize, index: usize) -> String {
    format!("{}{index}", ["a", "s", "s", "s", "s", "o"][variable])
}

/// A random diagram, and what it computes.
enum Diagram {
    Number(f64),
    Node(usize, Vec<Option<Diagram>>),
    Uniform(usize),
    Fixed(usize, usize),
    /// The variable has the value that it had before.
    Kept(usize),
    Template,
}

impl Diagram {
    /// A diagram of the variables that are not `taken`.
    fn draw(random: &mut Random, taken: u32, template: bool) -> Self {
        let free: Vec<usize> = (0..VARIABLES.len()).filter(|variable| taken & (1 << variable) == 0).collect();
        let kind = random.below(8);
        if free.is_empty() || kind == 0 {
            return Self::Number(random.signed(1)[0] * 10_f64.powi(random.below(600) as i32 - 300));
        }
        let variable = free[random.below(free.len() as u64) as usize];
        let size = VARIABLES[variable].1;
        match kind {
            1 => Self::Uniform(variable),
            2 => Self::Fixed(variable, random.below(size as u64) as usize),
            3 if [3, 4].contains(&variable) => Self::Kept(variable),
            // It has the variables 0 and 5.
            4 if template && taken & 0b10_0001 == 0 => Self::Template,
            _ => {
                let edge = |_| (random.below(6) > 0).then(|| Self::draw(random, taken | (1 << variable), template));
                Self::Node(variable, (0..size).map(edge).collect())
            }
        }
    }

    fn text(&self) -> String {
        let name = |variable: &usize| VARIABLES[*variable].0;
        match self {
            Self::Number(number) => format!("<Terminal> {number:?} </Terminal>"),
            Self::Node(variable, parts) => {
                let edge = |(index, part): (usize, &Option<Self>)| {
                    let part = part.as_ref()?.text();
                    Some(format!("<Edge val=\"{}\">{part}</Edge>", value(*variable, index)))
                };
                let edges: String = parts.iter().enumerate().filter_map(edge).collect();
                format!("<Node var=\"{}\">{edges}</Node>", name(variable))
            }
            Self::Uniform(variable) => format!("<SubDAG type=\"uniform\" var=\"{}\"/>", name(variable)),
            Self::Fixed(variable, index) => {
                let value = value(*variable, *index);
                format!("<SubDAG type=\"deterministic\" var=\"{}\" val=\"{value}\"/>", name(variable))
            }
            Self::Kept(variable) => format!("<SubDAG type=\"persistent\" var=\"{}\"/>", name(variable)),
            Self::Template => "<SubDAG type=\"template\" idref=\"t\"/>".to_owned(),
        }
    }

    fn number(&self, at: &[usize; 6], template: &Self) -> f64 {
        let one = |holds: bool| f64::from(u8::from(holds));
        match self {
            Self::Number(number) => *number,
            Self::Node(variable, parts) => parts[at[*variable]].as_ref().map_or(0.0, |part| part.number(at, template)),
            Self::Uniform(variable) => 1.0 / VARIABLES[*variable].1 as f64,
            Self::Fixed(variable, index) => one(at[*variable] == *index),
            Self::Kept(variable) => one(at[*variable] == at[variable - 2]),
            Self::Template => template.number(at, template),
        }
    }
}

/// Rewards as random diagrams are those of the table of all their numbers.
#[test]
fn random_diagrams_are_those_of_their_numbers() {
    let mut random = Random::new(17);
    let uniform = |name: &str| {
        format!(
            "<CondProb><Var>{name}</Var><Parent>null</Parent><Parameter><Entry><Instance>-</Instance>\
             <ProbTable>uniform</ProbTable></Entry></Parameter></CondProb>"
        )
    };
    let model = |parameter: &str| {
        format!(
            "<pomdpx><Discount>0.9</Discount><Variable>\
             <StateVar vnamePrev=\"x_0\" vnameCurr=\"x_1\"><NumValues>3</NumValues></StateVar>\
             <StateVar vnamePrev=\"y_0\" vnameCurr=\"y_1\"><NumValues>2</NumValues></StateVar>\
             <ActionVar vname=\"act\"><NumValues>2</NumValues></ActionVar>\
             <ObsVar vname=\"seen\"><NumValues>2</NumValues></ObsVar><RewardVar vname=\"r\"/></Variable>\
             <InitialStateBelief>{}{}</InitialStateBelief><StateTransitionFunction>{}{}</StateTransitionFunction>\
             <ObsFunction>{}</ObsFunction><RewardFunction><Func><Var>r</Var>\
             <Parent>act x_0 y_0 x_1 y_1 seen</Parent>{parameter}</Func></RewardFunction></pomdpx>",
            uniform("x_0"),
            uniform("y_0"),
            uniform("x_1"),
            uniform("y_1"),
            uniform("seen"),
        )
    };
    for case in 0..200 {
        let template = Diagram::Node(
            5,
            (0..2).map(|_| Some(Diagram::Node(0, vec![Some(Diagram::Number(random.signed(1)[0])), None]))).collect(),
        );
        let diagram = Diagram::draw(&mut random, 0, true);
        let drawn = format!(
            "<Parameter type=\"DD\"><DAG>{}</DAG><SubDAGTemplate id=\"t\">{}</SubDAGTemplate></Parameter>",
            diagram.text(),
            template.text()
        );
        let mut entries = String::new();
        for index in 0..VARIABLES.iter().map(|(_, size)| size).product() {
            let mut rest: usize = index;
            let at = VARIABLES.map(|(_, size)| {
                let value = rest % size;
                rest /= size;
                value
            });
            let names: Vec<String> = at.iter().enumerate().map(|(variable, &index)| value(variable, index)).collect();
            let number = diagram.number(&at, &template);
            entries +=
                &format!("<Entry><Instance>{}</Instance><ValueTable>{number:?}</ValueTable></Entry>", names.join(" "));
        }
        let listed = format!("<Parameter type=\"TBL\">{entries}</Parameter>");
        assert_same(&read(&model(&drawn)).unwrap(), &read(&model(&listed)).unwrap(), &format!("case {case}: {drawn}"));
    }
}
