package main

import (
	"encoding/json"

	"go.yaml.in/yaml/v4"
)

func yamlToJSON(b []byte) ([]byte, error) {
	var v any
	if err := yaml.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}
