package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
)

func outputFlag(formats ...string) cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "output `FORMAT`: " + strings.Join(formats, "|")}
}

// outputOf reads -o; "" stands for the command's own form.
func outputOf(c *cli.Context, formats ...string) (string, error) {
	o := c.String("output")
	if o == "" || slices.Contains(formats, o) {
		return o, nil
	}
	return "", usagef("there is no output format %q here; choose from %s", o, strings.Join(formats, ", "))
}

// printObjects prints one object as itself, several as a List, or names a line each.
func printObjects(w io.Writer, output string, objects []api.Object) error {
	switch output {
	case "name":
		for _, o := range objects {
			if _, err := fmt.Fprintln(w, refOf(o)); err != nil {
				return err
			}
		}
		return nil
	case "json":
		return printJSON(w, objects)
	}
	for i, o := range objects {
		b, err := api.EncodeYAML(o)
		if err != nil {
			return err
		}
		if i > 0 {
			b = append([]byte("---\n"), b...)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func printJSON(w io.Writer, objects []api.Object) error {
	if len(objects) != 1 {
		return printJSONList(w, objects)
	}
	b, err := api.Encode(objects[0])
	if err != nil {
		return err
	}
	return writeIndented(w, b)
}

func printJSONList(w io.Writer, objects []api.Object) error {
	items := make([]json.RawMessage, len(objects))
	for i, o := range objects {
		b, err := api.Encode(o)
		if err != nil {
			return err
		}
		items[i] = b
	}
	b, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		return err
	}
	return writeIndented(w, b)
}

func writeIndented(w io.Writer, b []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err := w.Write(out.Bytes())
	return err
}
