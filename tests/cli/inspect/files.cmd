# needs: shared
# Every file of the collections: what the specification calls valid is listed, what it forbids is refused in one line.
cd "$FLOODMARK_SHARED/golden/files" || exit 9
for folder in gguf_bad safetensors_bad; do
    tr -d '\n' <$folder/index.json | sed 's/"file": /\n/g' | sed -n 's/^"\([^"]*\)", *"spec": "\([a-z]*\)".*/\1 \2/p' |
        while read -r file spec; do
            message=$(floodmark inspect --json "$folder/$file" 2>&1 >/dev/null)
            code=$?
            case $spec-$code in
            valid-0 | invalid-1 | unspecified-[01]) ;;
            *) echo "$folder/$file is $spec: exit $code: $message" ;;
            esac
            [ $code -eq 0 ] || [ "$(echo "$message" | wc -l)" -eq 1 ] || echo "$folder/$file: more than one line"
            echo $folder $spec >>"$HOME/judged"
        done
done
LC_ALL=C sort "$HOME/judged" | uniq -c
floodmark inspect gguf/tokenizer.gguf
floodmark inspect gguf/all_keys.gguf
floodmark inspect safetensors/sharded
floodmark inspect safetensors_bad/data_truncated.safetensors
