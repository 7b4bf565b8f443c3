//! Models of the tests of formats, and comparisons.

use warpkov_pomdp::io as formats;
use warpkov_pomdp::io::Format;
use warpkov_pomdp::model::Pomdp;

/// The tiger of Kaelbling, Littman and Cassandra, *Planning and acting in partially observable stochastic domains*
/// (1998).
pub const TIGER: &str = "\
# The tiger is behind one of two doors.
discount: 0.95
values: reward
states: tiger-left tiger-right
actions: listen open-left open-right
observations: hear-left hear-right

T: listen
identity
T: open-left
uniform
T: open-right
uniform

O: listen
0.85 0.15
0.15 0.85
O: open-left
uniform
O: open-right
uniform

R: listen : * : * : * -1
R: open-left : tiger-left : * : * -100
R: open-left : tiger-right : * : * 10
R: open-right : tiger-left : * : * 10
R: open-right : tiger-right : * : * -100
";

pub fn parse(text: &str) -> Result<Pomdp, String> {
    formats::read_from(text.as_bytes(), "m.pomdp", Some(Format::Pomdp)).map_err(|error| error.to_string())
}

pub fn model(text: &str) -> Pomdp {
    parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The error of a text: the first line of the message without the file's name, and the text above the caret.
pub fn fault(text: &str) -> (String, String) {
    let error = parse(text).err().unwrap_or_else(|| panic!("this is read:\n{text}"));
    let lines: Vec<&str> = error.lines().collect();
    let caret = match lines[..] {
        [_, line, caret] => line.chars().skip(caret.chars().count() - 1).collect(),
        _ => String::new(),
    };
    (lines[0].strip_prefix("m.pomdp:").unwrap_or(lines[0]).to_owned(), caret)
}

/// T(s, a, ·).
pub fn successors(model: &Pomdp, state: u32, action: u32) -> Vec<(u32, f64)> {
    let (col, val) = model.successors(state, action);
    col.iter().copied().zip(val.iter().copied()).collect()
}

/// O(a, s', ·).
pub fn observed(model: &Pomdp, action: u32, state: u32) -> Vec<(u32, f64)> {
    let (col, val) = model.observed(action, state);
    col.iter().copied().zip(val.iter().copied()).collect()
}

/// A preamble with two states, actions and observations; T, O and R are missing.
pub const TWO: &str = "discount: 0.5 states: 2 actions: 2 observations: 2\n";

/// The model of the preamble, a valid T, a valid O, and then `text`.
pub fn two(text: &str) -> Pomdp {
    model(&format!("{TWO} T: * identity O: * uniform {text}"))
}

/// Asserts that two models are equal to the last bit.
pub fn assert_same(found: &Pomdp, expected: &Pomdp, what: &str) {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let (own, its) = (found.process(), expected.process());
    for (a, b) in [
        (own.transitions(), its.transitions()),
        (own.rewards(), its.rewards()),
        (found.observations(), expected.observations()),
    ] {
        assert_eq!((&a.row_ptr()[..], &a.col()[..]), (&b.row_ptr()[..], &b.col()[..]), "{what}");
        assert_eq!(bits(a.val()), bits(b.val()), "{what}");
    }
    assert_eq!(bits(own.action_rewards()), bits(its.action_rewards()), "{what}");
    assert_eq!((own.gamma().to_bits(), own.objective()), (its.gamma().to_bits(), its.objective()), "{what}");
    assert_eq!((found.start(), found.names()), (expected.start(), expected.names()), "{what}");
}

/// A model with all features of the formats: sevenths, names, costs, rewards of transitions and of actions.
pub fn sevenths() -> Pomdp {
    let row = ["0.14285714285714285"; 7].join(" ");
    model(&format!(
        "discount: 0.3 values: cost states: a b c d e f g actions: stay go observations: p q
         start: 0.1 0.2 0.3 0.4 0 0 0
         T: stay identity T: go : * {row}
         O: * : * 0.3333333333333333 0.6666666666666667 O: go : a 1e-7 0.9999999
         R: stay : * : * : * 0.1 R: go : * : * : * 2 R: go : b : c : q -3 R: go : d : d : * 1e-9"
    ))
}

/// A rover with an observed position and a hidden rock: two positions, a good or bad rock, and a sensor that is correct
/// with probability .8, from position 0 only.
pub const ROVER: &str = r#"<?xml version="1.0" encoding="ISO-8859-1"?>
<!-- A small one. -->
<pomdpx version="1.0" id="rover">
  <Description>A rover &amp; a rock</Description>
  <Discount> 0.95 </Discount>
  <Variable>
    <StateVar vnamePrev="place_0" vnameCurr="place_1" fullyObs="true"><NumValues>2</NumValues></StateVar>
    <StateVar vnamePrev="rock_0" vnameCurr="rock_1"><ValueEnum>good bad</ValueEnum></StateVar>
    <ObsVar vname="sensor"><ValueEnum>ogood obad</ValueEnum></ObsVar>
    <ActionVar vname="act"><ValueEnum>stay go sample</ValueEnum></ActionVar>
    <RewardVar vname="reward"/>
  </Variable>
  <InitialStateBelief>
    <CondProb><Var>place_0</Var><Parent>null</Parent>
      <Parameter type="TBL"><Entry><Instance>-</Instance><ProbTable>1.0 0.0</ProbTable></Entry></Parameter></CondProb>
    <CondProb><Var>rock_0</Var><Parent>null</Parent>
      <Parameter type="TBL"><Entry><Instance>-</Instance><ProbTable>uniform</ProbTable></Entry></Parameter></CondProb>
  </InitialStateBelief>
  <StateTransitionFunction>
    <CondProb><Var>rock_1</Var><Parent>act place_0 rock_0</Parent><Parameter>
      <Entry><Instance>* * - -</Instance><ProbTable>identity</ProbTable></Entry>
      <Entry><Instance>sample s1 * -</Instance><ProbTable>0 1</ProbTable></Entry></Parameter></CondProb>
    <CondProb><Var>place_1</Var><Parent>act place_0</Parent><Parameter type="TBL">
      <Entry><Instance>* - -</Instance><ProbTable>identity</ProbTable></Entry>
      <Entry><Instance>go * -</Instance><ProbTable>0.25 0.75</ProbTable></Entry></Parameter></CondProb>
  </StateTransitionFunction>
  <ObsFunction>
    <CondProb><Var>sensor</Var><Parent>place_1 rock_1</Parent><Parameter type="TBL">
      <Entry><Instance>s0 - -</Instance><ProbTable>0.8 0.2 0.2 0.8</ProbTable></Entry>
      <Entry><Instance>s1 * -</Instance><ProbTable>uniform</ProbTable></Entry></Parameter></CondProb>
  </ObsFunction>
  <RewardFunction>
    <Func><Var>reward</Var><Parent>act place_0 rock_0</Parent><Parameter type="TBL">
      <Entry><Instance>sample s1 good</Instance><ValueTable>10</ValueTable></Entry>
      <Entry><Instance>sample s1 bad</Instance><ValueTable>-10</ValueTable></Entry></Parameter></Func>
    <Func><Var>reward</Var><Parent>act place_1</Parent><Parameter type="TBL">
      <Entry><Instance>go -</Instance><ValueTable>0 -1</ValueTable></Entry></Parameter></Func>
  </RewardFunction>
</pomdpx>
"#;

/// Two state variables with two values each; x is observed.
pub fn seen(objective: &str) -> String {
    let rows = "\"indptr\":[0,2,4,6,8,10,12,14,16],\"indices\":[0,2,1,3,0,2,1,3,0,2,1,3,0,2,1,3],\
                \"data\":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5]";
    let observed = "\"indptr\":[0,1,2,3,4,5,6,7,8],\"indices\":[0,0,1,1,0,0,1,1],\"data\":[1,1,1,1,1,1,1,1]";
    format!(
        "{{\"S\":4,\"A\":2,\"O\":2,\"gamma\":0.5,\"objective\":\"{objective}\",\"P\":{{{rows}}},\"Z\":{{{observed}}},\
         \"action_rewards\":[1,2,3,4,5,6,7,8],\"seen\":[0,0,1,1]}}"
    )
}
