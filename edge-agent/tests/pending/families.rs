/// `tokens.json` has what llama.cpp makes of texts with one vocabulary under each family's rules.
#[test]
fn families_cut_as_llama_cpp_does() {
    #[derive(serde::Deserialize)]
    struct Reference {
        control: Vec<String>,
        texts: Vec<String>,
        merges: Vec<String>,
        pieces: Vec<String>,
        byte_pairs: HashMap<String, Vec<Vec<u32>>>,
        sentence_pieces: HashMap<String, Vec<Vec<u32>>>,
    }
    let r: Reference = serde_json::from_str(include_str!("references/tokens.json")).unwrap();
    let special = r.control.len();
    let writer = |model: &str, tokens: &[String], types: &[i32]| {
        let mut w = Writer::default();
        w.string("tokenizer.ggml.model", model).strings("tokenizer.ggml.tokens", tokens);
        w.i32s("tokenizer.ggml.token_type", types).bool("tokenizer.ggml.add_bos_token", false);
        w
    };
    let check = |rules: &str, tokenizer: Tokenizer, expected: &[Vec<u32>]| {
        assert_eq!(r.texts.len(), expected.len());
        for (text, ids) in r.texts.iter().zip(expected) {
            assert_eq!(tokenizer.encode_document(text).unwrap(), *ids, "{rules} {text:?}");
        }
    };
    // The bytes whose characters are themselves come first, as in the script.
    let mut bytes: Vec<String> = (0..=255).map(|b| tiny::byte_character(b).to_string()).collect();
    bytes.sort_by_key(|c| c.chars().next().map(|c| c >= '\u{100}'));
    let merged = r.merges.iter().map(|pair| pair.replace(' ', ""));
    let mut tokens: Vec<String> = Vec::new();
    for token in r.control.iter().cloned().chain(bytes).chain(merged) {
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }
    let types: Vec<i32> = (0..tokens.len()).map(|id| if id < special { 3 } else { 1 }).collect();
    assert_eq!(r.byte_pairs.len(), 6);
    for (family, expected) in &r.byte_pairs {
        let mut w = writer("gpt2", &tokens, &types);
        w.string("tokenizer.ggml.pre", family).strings("tokenizer.ggml.merges", &r.merges);
        check(family, tokenizer_of(&w), expected);
    }
    let spelled = (0..256).map(|b| format!("<0x{b:02X}>"));
    let tokens: Vec<String> = r.control.iter().cloned().chain(spelled).chain(r.pieces.clone()).collect();
    let plain = special + 256;
    let types: Vec<i32> = (0..tokens.len())
        .map(|id| {
            if id < special {
                3
            } else if id < plain {
                6
            } else {
                1
            }
        })
        .collect();
    let scores: Vec<f32> = (0..tokens.len()).map(|id| -(id.saturating_sub(plain) as f32)).collect();
    for (prefix, expected) in &r.sentence_pieces {
        let mut w = writer("llama", &tokens, &types);
        w.f32s("tokenizer.ggml.scores", &scores).bool("tokenizer.ggml.add_space_prefix", prefix == "true");
        check(prefix, tokenizer_of(&w), expected);
    }
}

