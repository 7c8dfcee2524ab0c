// What a plain YAML scalar is: the rules that fm_tree_parse_yaml states.
#ifndef FM_FILES_YAML_SCALAR_H
#define FM_FILES_YAML_SCALAR_H
#include "files/tree_node.h"

// Sets the node's type and value from its text (zero-ended, `count` bytes). `tag` is NULL for a plain scalar, "!" for a
// quoted one, else the full tag. Returns NULL, or what is wrong with it, in words.
const char *fm_yaml_resolve(fm_node *node, const char *tag);
#endif
