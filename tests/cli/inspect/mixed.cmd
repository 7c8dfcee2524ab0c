floodmark inspect deepseek-ai/DeepSeek-V3
