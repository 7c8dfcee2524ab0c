for mix in q3_k_m q4_k_s q4_k_m q5_k_m q6_k; do
    floodmark quantize "$CASES/mix.gguf" $mix.gguf -f $mix --dry-run |
        awk -v mix=$mix '/blk|embd/ && $5 !~ /^[=0-9]/ { n = $1; gsub(/blk\.|\.weight/, "", n); split(n, p, "."); row[p[2] == "" ? n : p[2]] = row[p[2] == "" ? n : p[2]] " " $5 }
            END { for (k in row) print mix ": " k row[k] }' | sort
done
floodmark quantize "$CASES/mix.gguf" out.gguf -f q4_k_m >/dev/null 2>&1
floodmark quantize out.gguf wide.gguf -f bf16 2>/dev/null | grep -c bf16
# Eight experts: attn_v and attn_k get q8_0 in every mix, q6_k too; attn_output q5_k in those below.
for mix in q3_k_m q4_k_s q4_k_m q5_k_m q6_k; do
    floodmark quantize "$CASES/mix8.gguf" $mix.gguf -f $mix --dry-run |
        awk -v mix=$mix '/attn|down/ { n = $1; gsub(/blk\.|\.weight/, "", n); split(n, p, "."); t = ""; for (i = 2; i <= NF; i++) if ($i ~ /^q[0-9]/) { t = $i; break }; row[p[2]] = row[p[2]] " " t }
            END { for (k in row) print "8 experts: " mix ": " k row[k] }' | sort
done
