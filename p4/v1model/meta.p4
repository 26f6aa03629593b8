// SPDX-License-Identifier: Apache-2.0
// Metadata of the v1model program. A site's own program takes `copy`, `facts` and `view` into its metadata.
#ifndef FC_V1_META_P4
#define FC_V1_META_P4

#define FC_COPY_FIELDS 1     // the field list that a clone keeps

struct fc_meta_t {
    fc_facts_t facts;
    fc_view_t view;
    @field_list(FC_COPY_FIELDS)
    fc_copy_t copy;
}

#endif
