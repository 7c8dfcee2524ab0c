# The picture is written beside the report, and is XML that closes.
floodmark plan gpt2 --on 2xA100-40GB --svg out.svg | head -n 1 | cut -c 1-4
head -c 5 out.svg
tail -n 1 out.svg
