def test_the_same_content_twice_is_one_memory(remember):
    assert remember("same").pk == remember("same").pk
